import { unpressed } from './dom.js';

// A List makes elements only for the rows in view. While the mouse is over it, rows get new
// contents, but none comes, goes or moves.
export class List {
	constructor(root, { height, fill, pick, toggle, held = () => {} }) {
		Object.assign(this, { root, height, fill, pick, toggle, held, items: [], chosen: '', over: false, waiting: null });
		this.space = document.createElement('div');
		this.space.role = 'presentation';
		root.append(this.space);
		this.empty = document.createElement('div');
		this.empty.className = 'empty';
		this.empty.hidden = true;
		root.after(this.empty);
		this.rows = [];
		root.addEventListener('scroll', () => this.draw(), { passive: true });
		new ResizeObserver(() => this.draw()).observe(root);
		root.addEventListener('keydown', (e) => this.key(e));
		root.addEventListener('click', (e) => {
			const row = e.target.closest('.row'), item = row && this.items[Number(row.dataset.index)];
			if (!item) return;
			const toggles = this.toggle && (item.folds || e.target.closest('.twist') || item.key === this.chosen);
			if (!toggles || item.folds) this.choose(item);
			if (toggles) this.toggle(item);
		});
		root.addEventListener('pointerenter', (e) => { this.over = e.pointerType === 'mouse'; });
		root.addEventListener('pointerleave', () => {
			this.over = false;
			if (this.waiting) this.set(...this.waiting);
		});
	}

	resize(height) {
		if (height === this.height) return;
		this.height = height;
		this.draw();
	}

	// set replaces the items, each of which has a key, and the key of the chosen one. why are
	// the elements that say why there are no items. With force, rows move even under the mouse,
	// because the user asked for it.
	set(...what) { unpressed(this, () => this.place(...what)); }

	place(items, chosen = this.chosen, why = [], force = false) {
		this.waiting = null;
		if (this.over && !force && this.items.length) {
			const now = new Map(items.map((i) => [i.key, i])), old = new Set(this.items.map((i) => i.key));
			this.held(items.filter((i) => !old.has(i.key)).length);
			this.waiting = [items, chosen, why];
			this.items = this.items.map((i) => now.get(i.key) || i);
		} else {
			this.held(0);
			// What is in view stays in view when rows come above it.
			const first = this.items[Math.floor(this.root.scrollTop / this.height)];
			const moved = first && this.root.scrollTop > 0 ? items.findIndex((i) => i.key === first.key) - this.items.indexOf(first) : 0;
			const was = this.items.length;
			this.items = items;
			if (moved > 0 && was) {
				this.space.style.height = items.length * this.height + 'px';
				this.root.scrollTop += moved * this.height;
			}
			this.root.hidden = !items.length;
			this.empty.hidden = items.length > 0;
			const text = why.map((e) => e.textContent || e).join('');
			if (!items.length && this.empty.textContent !== text) this.empty.replaceChildren(...why);
		}
		this.chosen = chosen;
		this.draw();
	}

	choose(item) {
		if (!item) return;
		this.chosen = item.key;
		this.draw();
		this.pick(item);
	}

	step(n) {
		const at = this.items.findIndex((i) => i.key === this.chosen);
		this.reach(at < 0 ? 0 : at + n);
	}

	reach(to) {
		const index = Math.min(Math.max(to, 0), this.items.length - 1), top = index * this.height;
		if (top < this.root.scrollTop) this.root.scrollTop = top;
		else if (top + this.height > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = top + this.height - this.root.clientHeight;
		this.choose(this.items[index]);
	}

	key(e) {
		const at = this.items.findIndex((i) => i.key === this.chosen), item = this.items[at];
		if (this.toggle && item && e.key === (item.open ? 'ArrowLeft' : 'ArrowRight') && item.open !== undefined) {
			e.preventDefault();
			this.toggle(item);
			return;
		}
		const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 1);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.items.length - 1, PageDown: at + page, PageUp: at - page,
			ArrowLeft: item?.parent ? this.items.findIndex((i) => i.key === item.parent) : undefined }[e.key];
		if (to === undefined) return;
		e.preventDefault();
		this.reach(to);
	}

	draw() {
		this.space.style.height = this.items.length * this.height + 'px';
		const first = Math.max(0, Math.floor(this.root.scrollTop / this.height) - 3);
		const count = Math.max(0, Math.min(this.items.length - first, Math.ceil(this.root.clientHeight / this.height) + 6));
		while (this.rows.length > count) this.rows.pop().remove();
		while (this.rows.length < count) {
			const row = document.createElement('div');
			row.className = 'row';
			row.id = this.root.id + '-' + this.rows.length;
			row.role = this.root.role === 'tree' ? 'treeitem' : 'option';
			this.rows.push(row);
			this.root.append(row);
		}
		let active = '';
		this.rows.forEach((row, i) => {
			const item = this.items[first + i], chosen = item.key === this.chosen;
			row.style.height = this.height + 'px';
			row.style.top = (first + i) * this.height + 'px';
			row.dataset.index = first + i;
			row.ariaSetSize = this.items.length;
			row.ariaPosInSet = first + i + 1;
			row.ariaSelected = chosen;
			if (item.level) row.ariaLevel = item.level;
			row.ariaExpanded = item.open ?? null;
			if (chosen) active = row.id;
			this.fill(row, item);
		});
		if (active) this.root.setAttribute('aria-activedescendant', active);
		else this.root.removeAttribute('aria-activedescendant');
	}
}
