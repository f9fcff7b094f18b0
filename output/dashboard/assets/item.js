// The page of a tool, a prompt, a template or a skill: its definition, how that changed, and its calls.
import { actionsFor, canAct } from './act.js';
import { ms, outcomes } from './calls.js';
import { diff } from './diff.js';
import { $, asText, at, el, facts, line, name, note, para, shortDigest, shown, size, visible } from './dom.js';
import { link } from './rail.js';
import { diffLine } from './resource.js';
import { schemaTable, table } from './schema.js';
import { api, get, reason, state } from './state.js';

let page = { versions: [], made: new Map() }; // what is known of one item, and what was made of it

const asked = () => state.server + '\n' + state.item;
const parts = () => state.item.split(/\/(.*)/s); // kind and key

// loadItem asks for the definition, its versions and its calls. What is shown stays on a failure.
export async function loadItem(changed) {
	const { server, item } = state, what = asked();
	if (page.what !== what) page = { what, versions: [], made: new Map() };
	const p = page;
	const [now, log] = await Promise.allSettled([get(api(server, '/content', { item })), get('/api/history', { server, item, limit: 100 }), loadItemCalls(() => {})]);
	p.versions = log.value?.versions || p.versions;
	p.error = now.reason && (now.reason.status === 404 ? 'The server does not offer this now.' : visible(reason(now.reason)));
	if (now.value && now.value.digest !== p.digest) Object.assign(p, { digest: now.value.digest, definition: JSON.parse(now.value.text) });
	if (p === page && what === asked()) changed();
}

export async function loadItemCalls(changed) {
	const [kind, tool] = parts(), p = page;
	if (kind !== 'tool' || state.review || document.hidden || p.what !== asked()) return;
	try { p.calls = await get('/api/calls', { server: state.server, tool, tools: 1, newest: 100 }); } catch (err) { p.noCalls = reason(err); }
	if (p === page && p.what === asked()) changed();
}

const number = (n) => n > 0 ? ` (${n.toLocaleString()})` : '';
export const itemTabs = () => [['definition', 'Definition'], ['changes', 'Changes' + number(page.versions.length - 1)], ...(parts()[0] === 'tool' ? [['calls', 'Calls' + number(page.calls?.tools?.[0]?.calls)]] : [])];

const hints = { readOnlyHint: ['read-only', 'writes'], destructiveHint: ['destructive', 'not destructive'], idempotentHint: ['idempotent', 'not idempotent'], openWorldHint: ['open world', 'closed world'] };
// annotations says what a tool says about itself. How it writes is only said if it may write.
const annotations = (given) => Object.entries(hints).filter(([hint], i) => typeof given?.[hint] === 'boolean' && (given.readOnlyHint !== true || i % 3 === 0))
	.map(([hint, words]) => el('span', hint === 'destructiveHint' && given[hint] ? 'warn' : '', words[given[hint] ? 0 : 1]));

export function showItem(tab) {
	const [kind, key = kind] = parts(), d = page.definition, own = d?.frontmatter || d || {};
	const p = page.what === asked() ? page : { versions: [], made: new Map() };
	$('detail-title').replaceChildren(name(kind === 'skill' && own.name || key));
	$('detail-title').title = visible(key);
	$('detail-meta').replaceChildren(line('', link(state.server, { server: state.server }), kind, own.title !== key && own.title, ...annotations(d?.annotations)));
	const [what, make] = { definition: [p.digest && p.digest + canAct(), () => definition(kind, d, own)], changes: [JSON.stringify(p.versions), () => changesOf(p)], calls: [p.noCalls + JSON.stringify(p.calls), () => callsOf(p)] }[tab];
	if (!what) return [p.error ? para(p.error) : note('loading…')];
	// Elements stay as long as what they show, and so does what somebody types or selects in them.
	if (p.made.get(tab)?.what !== what) p.made.set(tab, { what, body: make().filter(Boolean) });
	return [p.error && tab === 'definition' && el('p', 'notice', p.error), ...p.made.get(tab).body].filter(Boolean);
}

function definition(kind, d, own) {
	const part = (title, content) => el('section', 'part', el('h3', '', title), content), form = actionsFor(state.server, kind, d);
	const input = (title, content) => form.length ? el('details', '', el('summary', '', title), content) : part(title, content); // which the form says too
	return [
		typeof own.description === 'string' && el('p', 'description', shown(own.description)),
		...form,
		kind === 'tool' && input('Input', schemaTable(d.inputSchema, 'It takes no arguments.')),
		d.outputSchema && part('Output', schemaTable(d.outputSchema, 'Its members are not described.')),
		Array.isArray(d.arguments) && input('Arguments', table(d.arguments.map((a) => ({ path: '', key: asText(a?.name), required: a?.required === true ? 'yes' : '', text: asText(a?.description || '') })))),
		kind !== 'tool' && kind !== 'prompt' && facts(Object.entries({ ...d, ...own }).filter(([k, v]) => typeof v === 'string' && k !== 'description')),
		el('details', '', el('summary', '', 'Definition as JSON'), el('pre', '', shown(JSON.stringify(d, null, 2)))),
	];
}

const changesOf = ({ versions }) => versions.length ? versions.map((v, i) => {
	const before = versions[i + 1], what = v.removed ? 'removed' : v.added ? 'added' : before ? line('', 'changed', ...(v.classes || []).map((c) => c.name)) : 'first known version';
	const e = el('details', '', el('summary', '', v.timestamp && at(v.timestamp, 'quiet'), ' ', what, ' ', el('span', 'mono quiet', shortDigest(v.digest))));
	e.ontoggle = () => { if (e.open && !e.lastChild.matches('.diff')) compare(e, v, before); };
	e.open = i === 0;
	return e;
}) : [note('No version of this definition is known.')];

const textOf = async (digest) => digest ? JSON.stringify(JSON.parse((await get(api(state.server, '/content', { item: state.item, digest }))).text), null, 2) + '\n' : '';

async function compare(e, v, before) {
	const out = el('div', 'diff', note('loading…'));
	e.append(out);
	try { out.replaceChildren(...diff(...await Promise.all([textOf(before?.digest), textOf(v.digest)])).map(diffLine)); } catch (err) { out.replaceChildren(note(err.status === 404 ? 'The text of one of these versions is not stored.' : visible(reason(err)))); }
}

const row = (tag, cells) => el('tr', '', ...cells.map(([text, mood]) => el(tag, mood, text)));

function callsOf({ calls, noCalls }) {
	if (!calls) return [note(noCalls || 'loading…')];
	const [t] = calls.tools || [], wrong = t?.errors + t?.toolErrors;
	if (!t) return [para('No client has called this tool yet, through the daemon or a gateway of this machine.')];
	return [
		el('ul', 'figures', ...[[t.calls.toLocaleString(), t.calls === 1 ? 'call' : 'calls'], [ms(t.p50Ms), 'p50'], [ms(t.p95Ms), 'p95'], [wrong.toLocaleString(), wrong === 1 ? 'error' : 'errors', wrong && 'bad']].map(([n, what, mood]) => el('li', mood, el('b', '', n), ' ' + what))),
		el('table', 'grid', el('thead', '', row('th', [['Time'], ['Result'], ['Took'], ['Size'], ['Client']])), el('tbody', '', ...calls.calls.toReversed().map((c) => {
			const [what, mood] = outcomes[c.outcome] || [visible(c.outcome)];
			return row('td', [[at(c.time, 'quiet')], [what + (c.code ? ' ' + c.code : ''), mood], [ms(c.ms)], [size(c.bytes)], [name(c.client || ''), 'quiet']]);
		}))),
	];
}

// lineOf is an item in the list of a server's page.
export function lineOf(kind, d) {
	const own = d.frontmatter || d, key = d[{ template: 'uriTemplate', skill: 'uri' }[kind] || 'name'];
	return { label: asText(kind === 'skill' && own.name || key), item: kind + '/' + key, text: asText(own.description || own.title || '').trim().split('\n', 1)[0].slice(0, 300) };
}
