// A List makes elements only for the rows in view, so that 10,000 rows cost as much as
// 20. Rows are chosen by click or keyboard. The root is a listbox.
export class List {
  constructor(root, { height, fill, pick }) {
    Object.assign(this, { root, height, fill, pick, items: [], chosen: '' });
    this.space = document.createElement('div');
    this.space.setAttribute('role', 'presentation');
    root.append(this.space);
    this.rows = [];
    root.addEventListener('scroll', () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(root);
    root.addEventListener('keydown', (e) => this.key(e));
    root.addEventListener('click', (e) => {
      const row = e.target.closest('.row');
      if (row) this.choose(Number(row.dataset.index));
    });
  }

  // resize changes the height of the rows.
  resize(height) {
    this.height = height;
    this.draw();
  }

  // set replaces the items, each of which has a key, and the key of the chosen one.
  set(items, chosen = this.chosen) {
    this.items = items;
    this.chosen = chosen;
    this.draw();
  }

  choose(index) {
    const item = this.items[index];
    if (!item) return;
    this.chosen = item.key;
    this.draw();
    this.pick(item);
  }

  key(e) {
    const at = this.items.findIndex((i) => i.key === this.chosen);
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.items.length - 1, PageDown: at + page, PageUp: at - page }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const index = Math.min(Math.max(to, 0), this.items.length - 1);
    const top = index * this.height;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + this.height > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = top + this.height - this.root.clientHeight;
    this.choose(index);
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
      row.setAttribute('role', 'option');
      this.rows.push(row);
      this.root.append(row);
    }
    let active = '';
    this.rows.forEach((row, i) => {
      const item = this.items[first + i], chosen = item.key === this.chosen;
      row.style.height = this.height + 'px';
      row.style.top = (first + i) * this.height + 'px';
      row.dataset.index = first + i;
      row.setAttribute('aria-setsize', this.items.length);
      row.setAttribute('aria-posinset', first + i + 1);
      row.setAttribute('aria-selected', String(chosen));
      if (chosen) active = row.id;
      this.fill(row, item);
    });
    if (active) this.root.setAttribute('aria-activedescendant', active);
    else this.root.removeAttribute('aria-activedescendant');
  }
}
