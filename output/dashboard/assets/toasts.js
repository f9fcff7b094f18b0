// Short messages at the bottom of the page. They cover what is there, and move nothing.
import { button, el } from './dom.js';

const all = el('div', '');
all.id = 'toasts';
document.body.append(all);

// toast shows a message for a time in ms, or until it is removed. A button can be pressed once.
export function toast(text, ms, label, act) {
	const e = el('div', 'toast', el('span', '', text), label && button('', label, (click) => { click.target.disabled = true; act(); }));
	e.role = 'status';
	all.prepend(e);
	if (ms) {
		const left = el('div', 'left');
		left.style.animationDuration = ms + 'ms';
		e.append(left);
		setTimeout(() => e.remove(), ms);
	}
	return e;
}

// newestAct does what the newest message offers.
export const newestAct = () => all.querySelector('button:enabled')?.click();
