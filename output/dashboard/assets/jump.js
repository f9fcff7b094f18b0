// The palette that leads to any server, and to what it offers.
import { List } from './list.js';
import { $, cut, el, name } from './dom.js';
import { everything } from './rail.js';
import { go, select } from './state.js';
import { fits, stateWords } from './words.js';

const maxMatches = 200;

const list = new List($('jump-list'), {
	height: 32,
	fill(row, { server: s, node: n }) {
		const what = n ? n.item.split('/', 1)[0] || 'resource' : 'server';
		row.replaceChildren(el('span', 'kind quiet', what), cut(n ? n.label : s.id, 'name'), n ? cut(n.label === n.title ? n.called : n.title, 'more quiet') : el('span', 'more quiet', stateWords(s)), n ? name(s.id, 'server') : '');
	},
	pick() {},
});

function leave() {
	const item = list.items.find((i) => i.key === list.chosen);
	$('jump').close();
	if (item) go(select({ server: item.server.id, uri: item.node?.uri || '', item: item.node?.item || '' }), true);
}

function match() {
	const text = $('jump-text').value.trim().toLowerCase(), all = [];
	for (const i of everything()) {
		if (i.node ? i.node.text.includes(text) || fits(text, i.server.id + ' ' + i.node.label) : fits(text, i.server.id, stateWords(i.server))) all.push({ ...i, key: i.node?.key || i.server.id });
		if (all.length === maxMatches) break;
	}
	list.set(all, all[0]?.key || '', [el('p', 'quiet', 'Nothing has this name or URI.')], true);
	$('jump-list').scrollTop = 0;
}

export function openJump() {
	$('jump-text').value = '';
	$('jump').showModal();
	match();
	$('jump-text').focus();
}

$('jump-text').oninput = match;
$('jump').addEventListener('keydown', (e) => {
	if (e.key === 'Enter') { e.preventDefault(); leave(); }
	else if (e.target === $('jump-text') && ['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp'].includes(e.key)) list.key(e);
});
$('jump-list').addEventListener('click', (e) => { if (e.target.closest('.row')) leave(); });
