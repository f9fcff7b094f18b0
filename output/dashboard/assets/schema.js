// A JSON Schema as a table with a row for each member. Servers write schemas: any value may be anything.
import { asText, el, name, note, shown } from './dom.js';

const maxRows = 500, maxDepth = 12, maxWork = 100000, most = 50;
export const isObject = (v) => Boolean(v) && typeof v === 'object' && !Array.isArray(v);
const list = (v) => Array.isArray(v) ? v.slice(0, most) : [];
const entries = (v) => isObject(v) ? Object.entries(v) : [];
const word = (v) => v === '' ? '""' : asText(v);
const refOf = (s) => isObject(s) && typeof s.$ref === 'string' ? s.$ref : '';

// A document is a schema, and how many members may still be looked at: references may fan out without end.
export const documentOf = (root) => ({ root, left: maxWork });

// resolve returns a schema with what $ref and allOf lead to.
export function resolve(s, doc, depth = 0) {
	if (!isObject(s) || depth > maxDepth || doc.left <= 0) return {};
	const { $ref, allOf, ...own } = s;
	doc.left -= 1 + Object.keys(own).length + entries(own.properties).length + (Array.isArray(own.required) ? own.required.length : 0);
	const parts = [...(refOf(s) ? [target($ref, doc)] : []), ...list(allOf)].map((p) => resolve(p, doc, depth + 1)).concat(own);
	return { ...Object.fromEntries(parts.flatMap(entries)), properties: Object.fromEntries(parts.flatMap((p) => entries(p.properties))), required: parts.flatMap((p) => Array.isArray(p.required) ? p.required : []) };
}

// simple is resolve that also takes the only alternative that is not null: so are optional arguments written.
export function simple(s, doc, depth = 0) {
	const { oneOf, anyOf, ...own } = resolve(s, doc), others = choicesOf({ oneOf, anyOf }).filter((c) => c?.type !== 'null');
	return others.length === 1 && depth < maxDepth ? simple({ ...own, allOf: others }, doc, depth + 1) : own;
}

function target(ref, doc) {
	const parts = ref.split('/').slice(1);
	let at = doc.root;
	doc.left -= parts.length + (ref.length >> 5);
	for (const part of parts) {
		const member = part.replaceAll('~1', '/').replaceAll('~0', '~');
		at = isObject(at) && Object.hasOwn(at, member) ? at[member] : undefined;
	}
	return ref[0] === '#' && isObject(at) ? at : { type: ref };
}

const choicesOf = (s) => [...list(s.oneOf), ...list(s.anyOf)];

function typeOf(schema, doc, depth = 0) {
	const s = resolve(schema, doc), of = (v) => depth < 4 ? typeOf(v, doc, depth + 1) : 'any', choices = choicesOf(s);
	const types = 'const' in s ? [word(s.const)] : choices.length ? choices.map(of) : (Array.isArray(s.type) ? list(s.type) : [s.type]).filter((t) => typeof t === 'string').map((t) => t === 'array' && isObject(s.items) ? 'array of ' + of(s.items) : t);
	if (!types.length) types.push(...(s.enum ? list(s.enum).map((v) => typeof v) : [Object.keys(s.properties || {}).length ? 'object' : 'any']));
	return [...new Set(types)].join(' or ');
}

export const range = (min, max) => min == null && max == null ? null : min == null ? 'at most ' + word(max) : max == null ? 'at least ' + word(min) : `${word(min)} to ${word(max)}`;
const said = (words, v) => v != null && words + word(v);

function limits(s, doc, depth = 0) {
	const each = s.type === 'array' && depth < 4 && limits(resolve(s.items, doc), doc, depth + 1);
	return [list(s.enum).map(word).join(', '), word(s.format), range(s.minimum, s.maximum), said('more than ', s.exclusiveMinimum), said('less than ', s.exclusiveMaximum), said('a multiple of ', s.multipleOf),
		said('length ', range(s.minLength, s.maxLength)), said('items: ', range(s.minItems, s.maxItems)), s.uniqueItems === true && 'no duplicates', said('matches ', s.pattern), each && 'each ' + each].filter(Boolean).join('; ');
}

// rows yields the members of a schema below a path. A schema in itself is not repeated.
function* rows(schema, doc, path = '', within = []) {
	const s = resolve(schema, doc), ref = refOf(schema);
	if (within.length > maxDepth || ref && within.includes(ref)) return;
	const below = (v, at) => rows(v, doc, at, [...within, ref]);
	const members = [...entries(s.properties), ...(isObject(s.additionalProperties) ? [['*', s.additionalProperties]] : []), ...list(s.prefixItems).map((v, i) => [`[${i}]`, v])];
	for (const [key, v] of members) {
		if (doc.left <= 0) return;
		const m = resolve(v, doc);
		const row = { path, key, type: typeOf(v, doc), required: s.required.includes(key) ? 'yes' : '', fallback: Object.hasOwn(m, 'default') ? word(m.default) : '', limits: limits(m, doc), text: asText(m.description || m.title || '') };
		doc.left -= Object.values(row).join('').length >> 5;
		yield row;
		yield* below(v, path + key + '.');
	}
	if (isObject(s.items)) yield* below(s.items, path.replace(/\.$/, '[].'));
	const choices = choicesOf(s).map((c) => [c, [...below(c, path)]]).filter(([, all]) => all.length);
	for (const [i, [c, all]] of choices.entries()) {
		if (choices.length > 1) yield { path: path.replace(/\.$/, ': '), key: `choice ${i + 1} of ${choices.length}`, choice: true, text: asText(c.title || refOf(c).split('/').pop()) };
		yield* all;
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
	const all = [], doc = documentOf(schema);
	for (const r of rows(schema, doc)) if (all.push(r) > maxRows) break;
	if (all.length > maxRows || doc.left <= 0) all[Math.min(all.length, maxRows)] = { path: '', key: '…', text: 'The definition has more.' };
	return all.length ? table(all) : note(none);
}
