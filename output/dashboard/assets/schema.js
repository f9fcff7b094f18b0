// A JSON Schema as a table with a row for each member. Servers write schemas: any value may be anything.
import { el, name, note, shown } from './dom.js';

const maxRows = 500, maxDepth = 12, maxSteps = 5000, most = 50;
let steps = 0; // taken for the schema that is shown: references may fan out without end
const isObject = (v) => Boolean(v) && typeof v === 'object' && !Array.isArray(v);
const list = (v) => Array.isArray(v) ? v.slice(0, most) : [];
const word = (v) => typeof v === 'string' && v ? v : JSON.stringify(v);
const refOf = (s) => isObject(s) && typeof s.$ref === 'string' ? s.$ref : '';

// resolve returns a schema with what $ref and allOf lead to.
export function resolve(s, root, depth = 0) {
	if (!isObject(s) || depth > maxDepth || ++steps > maxSteps) return {};
	const { $ref, allOf, ...own } = s;
	const parts = [...(refOf(s) ? [target($ref, root)] : []), ...list(allOf)].map((p) => resolve(p, root, depth + 1));
	return [...parts, own].reduce((a, b) => ({ ...a, ...b, properties: { ...a.properties, ...b.properties }, required: [a.required, b.required].flatMap((r) => Array.isArray(r) ? r : []) }));
}

function target(ref, root) {
	let at = root;
	for (const part of ref.split('/').slice(1)) {
		const member = part.replaceAll('~1', '/').replaceAll('~0', '~');
		at = isObject(at) && Object.hasOwn(at, member) ? at[member] : undefined;
	}
	return ref[0] === '#' && isObject(at) ? at : { type: ref };
}

const choicesOf = (s) => [...list(s.oneOf), ...list(s.anyOf)];

function typeOf(schema, root, depth = 0) {
	const s = resolve(schema, root), of = (v) => depth < 4 ? typeOf(v, root, depth + 1) : 'any', choices = choicesOf(s);
	const types = 'const' in s ? [word(s.const)] : choices.length ? choices.map(of) : [s.type].flat().filter((t) => typeof t === 'string').map((t) => t === 'array' && isObject(s.items) ? 'array of ' + of(s.items) : t);
	if (!types.length) types.push(...(s.enum ? list(s.enum).map((v) => typeof v) : [Object.keys(s.properties || {}).length ? 'object' : 'any']));
	return [...new Set(types)].join(' or ');
}

const range = (min, max) => min == null && max == null ? null : min == null ? 'at most ' + word(max) : max == null ? 'at least ' + word(min) : `${word(min)} to ${word(max)}`;
const said = (words, v) => v != null && words + word(v);

function limits(s, root) {
	const each = s.type === 'array' && limits(resolve(s.items, root), {});
	return [list(s.enum).map(word).join(', '), word(s.format), range(s.minimum, s.maximum), said('more than ', s.exclusiveMinimum), said('less than ', s.exclusiveMaximum), said('a multiple of ', s.multipleOf),
		said('length ', range(s.minLength, s.maxLength)), said('items: ', range(s.minItems, s.maxItems)), s.uniqueItems === true && 'no duplicates', said('matches ', s.pattern), each && 'each ' + each].filter(Boolean).join('; ');
}

// rows yields the members of a schema below a path. A schema in itself is not repeated.
function* rows(schema, root, path = '', within = []) {
	const s = resolve(schema, root), ref = refOf(schema);
	if (within.length > maxDepth || ref && within.includes(ref)) return;
	const below = (v, at) => rows(v, root, at, [...within, ref]);
	const members = [...Object.entries(s.properties || {}), ...(isObject(s.additionalProperties) ? [['*', s.additionalProperties]] : []), ...list(s.prefixItems).map((v, i) => [`[${i}]`, v])];
	for (const [key, v] of members) {
		const m = resolve(v, root);
		yield { path, key, type: typeOf(v, root), required: s.required?.includes(key) ? 'yes' : '', fallback: 'default' in m ? word(m.default) : '', limits: limits(m, root), text: String(m.description || m.title || '') };
		yield* below(v, path + key + '.');
	}
	if (isObject(s.items)) yield* below(s.items, path.replace(/\.$/, '[].'));
	const choices = choicesOf(s).filter((c) => below(c, path).next().value);
	for (const [i, c] of choices.entries()) {
		if (choices.length > 1) yield { path: path.replace(/\.$/, ': '), key: `choice ${i + 1} of ${choices.length}`, choice: true, text: String(c.title || refOf(c).split('/').pop()) };
		yield* below(c, path);
	}
}

const columns = [['Name', 'key'], ['Type', 'type'], ['Required', 'required'], ['Default', 'fallback'], ['Limits', 'limits'], ['Description', 'text']];

// table shows rows, without the columns that none of them has.
export function table(all) {
	const used = columns.filter(([, member]) => all.some((r) => r[member]));
	return el('table', 'schema', el('thead', '', el('tr', '', ...used.map(([label]) => el('th', '', label)))), el('tbody', '', ...all.map((r) => el('tr', '', ...used.map(([label, member]) => {
		const cell = member === 'key' ? el('td', r.choice ? 'quiet' : 'mono', r.path && name(r.path, 'quiet'), name(r.key)) : el('td', member, shown(r[member] || ''));
		cell.dataset.label = label;
		return cell;
	})))));
}

export function schemaTable(schema, none) {
	const all = [];
	steps = 0;
	for (const r of rows(schema, schema)) if (all.push(r) > maxRows) break;
	if (all.length > maxRows || steps > maxSteps) all[Math.min(all.length, maxRows)] = { path: '', key: '…', text: 'The definition has more.' };
	return all.length ? table(all) : note(none);
}
