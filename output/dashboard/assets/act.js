// What users do with a server: call a tool, get a prompt, restart it. Schemas and results come from servers: they are
// shown as text, within limits, and no pattern of theirs is run.
import { ms } from './calls.js';
import { $, asText, button, clipboard, count, el, line, name, note, shown, size, visible } from './dom.js';
import { documentOf, isObject, range, simple } from './schema.js';
import { api, go, post, reason, select } from './state.js';

const most = { fields: 60, options: 200, chars: 1000, blocks: 100, text: 200000 };
const sure = 400; // ms after which a second click confirms
let on, process = ''; // whether this mcptrack allows actions; undefined until it is known
const forms = new Map(); // by server, kind and name
const list = (v) => Array.isArray(v) ? v : [];
const json = (v) => JSON.stringify(v, null, 2);

export function learnActions(status) {
	on = Boolean(status.actions);
	process = status.process;
	$('no-actions').hidden = on;
}

export const canAct = () => on;

// actionsFor returns the form of a tool or a prompt. It is the same until what the form is made of changes, with what was
// typed and the last result, so that it can stay in the page.
export function actionsFor(server, kind, d) {
	if (!on || !['tool', 'prompt'].includes(kind)) return [];
	const key = JSON.stringify([server, kind, d.name]), of = JSON.stringify([d.inputSchema, d.arguments, d.annotations]), was = forms.get(key);
	if (was?.of !== of) {
		const now = form(server, kind, d);
		forms.set(key, { of, ...now });
		for (const f of now.fields) f.input.value = was?.fields.find((o) => o.arg === f.arg && o.kind === f.kind)?.input.value || f.input.value;
	}
	return [forms.get(key).root];
}

const scalar = (v) => v === null || typeof v !== 'object';
const typeOf = (s) => { const types = [s?.type].flat().filter((t) => t !== 'null'); return types.length === 1 && types[0]; };

// numeric returns the JSON of a number, as it was typed.
function numeric(text, s) {
	const n = Number(text), limits = [['minimum', (l) => n < l, 'at least'], ['maximum', (l) => n > l, 'at most'], ['exclusiveMinimum', (l) => n <= l, 'more than'], ['exclusiveMaximum', (l) => n >= l, 'less than']];
	if (!/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text)) throw Error('This must be a number.');
	if (typeOf(s) === 'integer' && !/^-?\d+$/.test(text)) throw Error('This must be a whole number.');
	for (const [limit, fails, words] of limits) if (typeof s[limit] === 'number' && fails(s[limit])) throw Error(`This must be ${words} ${s[limit]}.`);
	return text;
}

function parse(text) {
	try { return JSON.parse(text); } catch { throw Error('This is not JSON.'); }
}

// The kinds of fields: read returns the JSON of what is typed, and show is the reverse.
const kinds = {
	text: { rows: 1, read: JSON.stringify, show: asText },
	number: { read: (t, s) => numeric(t.trim(), s), show: JSON.stringify },
	choice: { read: (t) => t, show: JSON.stringify },
	lines: { rows: 2, hint: 'one per line', read: (t, { items }) => `[${t.split('\n').filter(Boolean).map((l) => typeOf(items) === 'string' ? JSON.stringify(l) : numeric(l.trim(), items))}]`, show: (v) => list(v).map(asText).join('\n') },
	json: { rows: 3, hint: 'JSON', read: (t) => { parse(t); return t.trim(); }, show: json },
};

function kindOf(s) {
	const numbers = ['integer', 'number'], type = typeOf(s);
	if (list(s.enum).length && s.enum.length <= most.options && s.enum.every(scalar)) return kinds.choice;
	return type === 'string' ? kinds.text : numbers.includes(type) ? kinds.number : type === 'array' && ['string', ...numbers].includes(typeOf(s.items)) ? kinds.lines : kinds.json;
}

let ids = 0;

// field is one argument. read returns its JSON, or '' without a value, and throws what is wrong with it. A draft may lack it.
function field(arg, schema, required, doc) {
	const s = simple(schema, doc);
	s.items = simple(s.items, doc);
	if ('const' in s || typeOf(s) === 'boolean') s.enum = 'const' in s ? [s.const] : [true, false];
	const kind = kindOf(s), id = 'argument-' + ++ids, label = el('label', '', name(arg, 'mono')), message = el('p', 'bad'), about = el('p', 'quiet', typeof s.description === 'string' && shown(s.description.slice(0, most.chars)));
	const input = kind === kinds.choice ? el('select', '', new Option('', ''), ...s.enum.map((v) => new Option(visible(v), JSON.stringify(v)))) : el(kind.rows ? 'textarea' : 'input');
	Object.assign(input, { id, required, className: kind.rows > 1 ? 'value mono' : 'value', spellcheck: false, autocomplete: 'off' }, kind.rows ? { rows: kind.rows, placeholder: kind.hint || '' } : {});
	label.htmlFor = id;
	message.id = id + '-message';
	about.id = id + '-about';
	input.setAttribute('aria-describedby', message.id + ' ' + about.id);
	const fill = (v) => { input.value = v === undefined ? '' : kind.show(v); };
	fill(s.default);
	return {
		arg, input, fill, kind,
		rows: [el('div', 'label', label, el('span', 'quiet', visible([kind === kinds.lines ? 'list' : kind !== kinds.text && typeOf(s), range(s.minimum, s.maximum), required && 'required'].filter(Boolean).join(', ')))), el('div', '', input, message, about)],
		read(draft) {
			message.textContent = '';
			input.ariaInvalid = false;
			try {
				if (!input.value && required && !draft) throw Error('This is required.');
				return input.value && kind.read(input.value, s);
			} catch (err) {
				message.textContent = err.message;
				input.ariaInvalid = true;
				throw err;
			}
		},
	};
}

function form(server, kind, d) {
	const tool = kind === 'tool', doc = documentOf(d.inputSchema), schema = simple(d.inputSchema, doc), verb = tool ? 'Call' : 'Get';
	const all = tool ? Object.entries(schema.properties || {}).map(([arg, s]) => [arg, s, schema.required.includes(arg)]) :
		list(d.arguments).filter((a) => typeof a?.name === 'string').map((a) => [a.name, { type: 'string', description: a.description }, a.required === true]);
	const many = all.length > most.fields || doc.left <= 0, fields = many ? [] : all.map(([arg, s, required]) => field(arg, s, required, doc)), whole = field('arguments', { type: 'object' }, false, documentOf({}));
	const grid = el('div', 'arguments', ...fields.flatMap((f) => f.rows)), one = el('div', 'arguments', ...whole.rows), asJSON = Object.assign(el('input'), { type: 'checkbox', checked: many });
	const run = el('button', 'primary', verb), said = el('span', 'quiet'), problem = el('p', 'notice bad'), out = el('div', 'answer');
	problem.role = 'alert';
	said.role = 'status';
	const fail = (text, ...more) => { problem.replaceChildren(visible(text), ...more); problem.hidden = !text; };
	// typed returns the arguments as JSON, or null if one of them is wrong, which gets the focus.
	const typed = (draft) => {
		const members = [];
		let first;
		for (const f of asJSON.checked ? [whole] : fields) {
			try { const v = f.read(draft); if (v) members.push([f.arg, v]); } catch { first ||= f; }
		}
		first?.input.focus();
		if (first) return null;
		if (!asJSON.checked) return members.length ? `{\n${members.map(([arg, v]) => `  ${JSON.stringify(arg)}: ${v}`).join(',\n')}\n}` : '{}';
		const [[, text] = [, '{}']] = members;
		if (isObject(JSON.parse(text))) return text;
		fail('The arguments must be an object.');
		return null;
	};
	// fills shows arguments in the fields, and reports whether reading these gives the same arguments.
	const fills = (given) => {
		const values = (args) => JSON.stringify(fields.map((f) => Object.hasOwn(args, f.arg) ? args[f.arg] : null));
		for (const f of fields) f.fill(Object.hasOwn(given, f.arg) ? given[f.arg] : undefined);
		const shown = JSON.parse(typed(true));
		return shown && values(shown) === values(given) && Object.keys(shown).length === Object.keys(given).length;
	};
	const swap = () => { grid.hidden = asJSON.checked; one.hidden = !asJSON.checked; };
	asJSON.onchange = () => {
		fail('');
		const toJSON = asJSON.checked;
		asJSON.checked = !toJSON; // what was shown is read
		const text = typed(true);
		if (text !== null) {
			asJSON.checked = toJSON;
			if (toJSON) whole.input.value = text;
			else if (!fills(JSON.parse(text))) {
				asJSON.checked = true;
				asJSON.focus();
				fail('The fields cannot show these arguments.');
			}
		}
		swap();
	};
	if (many) whole.fill({});
	swap();
	fail('');

	let running = null, asked = 0;
	const destructive = d.annotations?.destructiveHint === true && d.annotations.readOnlyHint !== true, label = () => { run.textContent = running ? 'Cancel' : asked ? verb + ': sure?' : verb; };
	run.onblur = () => { asked = 0; label(); };
	const submit = async () => {
		if (running) { running.abort(); return; }
		fail('');
		const text = typed();
		if (text === null || destructive && performance.now() - asked < sure) return;
		if (destructive && !asked) { run.focus(); asked = performance.now(); label(); return; }
		asked = 0;
		running = new AbortController();
		label();
		const began = performance.now(), took = () => ms(performance.now() - began), tick = setInterval(() => { said.textContent = 'waiting, ' + took(); }, 1000);
		said.textContent = 'waiting…';
		out.classList.add('old');
		try {
			const answer = await post(api(server, tool ? '/call' : '/prompt'), `{"${kind}":${JSON.stringify(d.name)},"arguments":${text}}`, { signal: running.signal });
			out.replaceChildren(...result(answer, took()));
		} catch (err) {
			out.replaceChildren();
			if (running.signal.aborted) fail(`Cancelled after ${took()}. The server was told, but may have done it.`);
			else fail(reason(err), err.status === 423 ? button('link', ' Review', () => go(select({ review: '1', server }), true)) : '');
		}
		clearInterval(tick);
		said.textContent = '';
		out.classList.remove('old');
		running = null;
		label();
	};
	const root = el('form', 'act', grid, one, el('div', 'bar', run, destructive && el('span', 'warn', 'destructive'), said, el('span', 'spread'), all.length && !many ? el('label', 'quiet', asJSON, 'as JSON') : ''), problem, out);
	root.noValidate = true;
	root.onsubmit = (e) => { e.preventDefault(); submit(); };
	root.onkeydown = (e) => { // Enter calls, and in fields of several lines with ctrl
		if (e.key !== 'Enter' || e.isComposing || e.target.tagName !== 'TEXTAREA' || !(e.ctrlKey || e.metaKey || !e.shiftKey && e.target.rows === 1)) return;
		e.preventDefault();
		if (!e.repeat && !running) submit();
	};
	return { root, fields };
}

// result shows what a server answered.
function result({ result: r, serverMs, bytes, pictures = [] }, took) {
	const messages = Array.isArray(r.messages), room = { left: most.text }, blocks = list(messages ? r.messages : r.content).filter(isObject).slice(0, most.blocks);
	const structured = r.structuredContent !== undefined && json(r.structuredContent), only = blocks.length === 1 && blocks[0].type === 'text' ? asText(blocks[0].text) : '';
	let same = false; // the text is the structured content
	try { same = structured && json(JSON.parse(only)) === structured; } catch { /* it is not JSON */ }
	return [
		el('div', 'bar', el('span', 'badge ' + (r.isError ? 'bad' : 'good'), r.isError ? 'error' : 'ok'), el('span', 'quiet', line('', took + ' in all', ms(serverMs) + ' of the server', size(bytes))), el('span', 'spread'),
			button('', 'Copy', (e) => clipboard(e.target, same ? structured : only || json(r), e.target.closest('.answer')))),
		...(same ? [] : blocks.flatMap((b, i) => messages ? [el('h3', '', name(b.role || '')), ...[b.content].flat().filter(isObject).flatMap((c) => block(c, room))] : block(b, room, pictures.includes(i)))),
		...(structured ? [el('h3', '', 'Structured content'), ...text(structured, room)] : []),
		!blocks.length && !structured && note('The result has no content.'),
	].filter(Boolean);
}

function text(t, room) {
	const part = t.slice(0, room.left), more = t.length - part.length;
	room.left -= part.length;
	return [el('pre', '', shown(part)), ...(more ? [note(count(more, 'more character') + '; Copy copies all.')] : [])];
}

function block(c, room, picture) {
	const { resource: r } = c;
	if (c.type === 'text') return text(asText(c.text), room);
	if (picture) return [canvas(c)];
	if (typeof c.data === 'string') return [el('p', '', line('', c.type, c.mimeType, size(c.data.length * 3 >> 2)))];
	if (c.type === 'resource_link') return [el('p', '', line('', c.title || c.name, name(c.uri, 'mono'), c.mimeType))];
	if (isObject(r)) return [el('p', 'quiet', line('', name(r.uri, 'mono'), r.mimeType)), ...(typeof r.text === 'string' ? text(r.text, room) : [])];
	return text(json(c), room);
}

// canvas draws a picture: unlike an address with data, that needs no exception from the page's policy.
function canvas(c) {
	const e = Object.assign(el('canvas'), { role: 'img', ariaLabel: visible(c.mimeType || 'picture') });
	createImageBitmap(new Blob([Uint8Array.from(atob(c.data), (b) => b.charCodeAt(0))])).then((p) => {
		Object.assign(e, { width: p.width, height: p.height }).getContext('2d').drawImage(p, 0, 0);
	}, () => e.replaceWith(note('This picture cannot be shown.')));
	return e;
}

// restart is the button that connects to a server again.
export function restart(s) {
	if (!on || ['Disabled', 'Unapproved', 'Unconfigured', 'Stopping'].includes(s.state)) return '';
	if (s.followedBy && s.followedBy !== process) return note('Restart it in the dashboard of the process that follows it: ', name(s.followedBy));
	const failed = el('span', 'bad'), b = button('', s.nextRetry ? 'Retry now' : 'Restart', async () => {
		b.disabled = true;
		try { await post(api(s.id, '/restart'), '{}'); } catch (err) { failed.textContent = ' ' + reason(err); }
		setTimeout(() => { b.disabled = false; }, 2000);
	});
	return el('p', '', b, failed);
}
