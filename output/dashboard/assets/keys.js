// The keys of the page. Keys are not taken from inputs, nor while a dialog is open.
import { $ } from './dom.js';
import { pause, stepFeed } from './feed.js';
import { openJump } from './jump.js';
import { collapseAll } from './rail.js';
import { go, select } from './state.js';
import { newestAct } from './toasts.js';

const openHelp = () => $('help').showModal();
const keys = {
	'/': () => { go({ view: 'rail' }); $('rail-filter').select(); },
	j: () => stepFeed(1),
	k: () => stepFeed(-1),
	'[': () => $('older').click(),
	']': () => $('newer').click(),
	c: collapseAll,
	f: () => go(select({}), true),
	p: pause,
	r: () => $('review').click(),
	u: newestAct,
	'?': openHelp,
};

export function startKeys() {
	$('open-help').onclick = openHelp;
	$('open-jump').onclick = openJump;
	for (const dialog of [$('help'), $('jump')]) dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); }); // outside of it
	addEventListener('keydown', (e) => {
		if (document.querySelector('dialog[open]') || e.altKey) return;
		if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') {
			e.preventDefault();
			openJump();
		} else if (e.key === 'Escape' && e.target.matches('input')) e.target.blur();
		else if (!e.ctrlKey && !e.metaKey && !e.target.matches?.('input, select, textarea') && Object.hasOwn(keys, e.key)) {
			e.preventDefault();
			keys[e.key]();
		}
	});
}
