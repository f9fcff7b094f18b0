// The drawer of the feed: its height, and whether it is open, which the browser remembers.
import { $ } from './dom.js';
const handle = $('resize'), main = document.querySelector('main');

function setHeight(percent) {
	const height = Math.round(Math.min(Math.max(percent, 10), 80));
	main.style.setProperty('--feed', height + '%');
	handle.ariaValueNow = height;
	localStorage.setItem('mcptrack-feed', height);
}

function setOpen(open) {
	main.classList.toggle('folded', !open);
	$('collapse').ariaExpanded = open;
	localStorage.setItem('mcptrack-feed-open', open ? '' : 'no');
}

export function startDrawer() {
	setHeight(Number(localStorage.getItem('mcptrack-feed')) || 30);
	setOpen(localStorage.getItem('mcptrack-feed-open') !== 'no');
	$('collapse').onclick = () => setOpen(main.classList.contains('folded'));
	handle.addEventListener('pointerdown', (e) => { handle.setPointerCapture(e.pointerId); e.preventDefault(); });
	handle.addEventListener('pointermove', (e) => {
		if (!handle.hasPointerCapture(e.pointerId)) return;
		const box = main.getBoundingClientRect();
		setOpen(true);
		setHeight((box.bottom - e.clientY) / box.height * 100);
	});
	handle.addEventListener('keydown', (e) => {
		const by = { ArrowUp: 5, ArrowDown: -5 }[e.key];
		if (!by) return;
		e.preventDefault();
		setHeight(Number(handle.ariaValueNow) + by);
	});
}
