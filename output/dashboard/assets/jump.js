// The palette that leads to any server or resource.
import { List } from './list.js';
import { $, cut, el, name } from './dom.js';
import { everything, labelOf } from './rail.js';
import { go, select } from './state.js';
import { fits, stateWords } from './words.js';

const maxMatches = 200;

const list = new List($('jump-list'), {
	height: 32,
	fill(row, { server, resource }) {
		row.replaceChildren(name(resource ? labelOf(resource) : server.id, 'name'), resource ? cut(resource.uri, 'quiet mono') : el('span', 'quiet', stateWords(server)));
	},
	pick() {},
});

function leave() {
	const item = list.items.find((i) => i.key === list.chosen);
	$('jump').close();
	if (item) go(select({ server: item.server.id, uri: item.resource?.uri || '' }), true);
}

function match() {
	const text = $('jump-text').value;
	const found = everything().filter(({ server, resource: r }) => r ? fits(text, r.uri, r.name, server.id + ' ' + labelOf(r)) : fits(text, server.id, stateWords(server)))
		.slice(0, maxMatches).map((i) => ({ ...i, key: i.server.id + '\n' + (i.resource?.uri || '') }));
	list.set(found, found[0]?.key || '', [el('p', 'quiet', 'Nothing has this name or URI.')], true);
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
