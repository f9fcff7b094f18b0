// A list that makes elements only for the rows that can be seen, so that 10,000
// rows cost as much as 20. Rows are chosen by click or by the keyboard.
export class List {
  constructor(root, { height, fill, pick }) {
    Object.assign(this, { root, height, fill, pick, items: [], chosen: '' });
    this.space = document.createElement('div');
    root.append(this.space);
    this.rows = [];
    root.addEventListener('scroll', () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(root);
    root.addEventListener('keydown', (e) => this.key(e));
    root.addEventListener('click', (e) => {
      const row = e.target.closest('.row');
      if (row && this.pick) this.choose(Number(row.dataset.index));
    });
  }

  // resize gives the rows another height.
  resize(height) {
    this.height = height;
    this.set(this.items);
  }

  // set replaces the items; each has a key.
  set(items) {
    this.items = items;
    this.space.style.height = items.length * this.height + 'px';
    this.draw();
  }

  choose(index) {
    const item = this.items[index];
    if (!item || !this.pick) return;
    this.chosen = item.key;
    this.draw();
    this.pick(item);
  }

  key(e) {
    if (!this.pick) return;
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
    const first = Math.max(0, Math.floor(this.root.scrollTop / this.height) - 3);
    const count = Math.min(this.items.length - first, Math.ceil(this.root.clientHeight / this.height) + 6);
    while (this.rows.length > Math.max(count, 0)) this.rows.pop().remove();
    while (this.rows.length < count) {
      const row = document.createElement('div');
      row.className = 'row';
      row.setAttribute('role', this.pick ? 'option' : 'listitem');
      this.rows.push(row);
      this.root.append(row);
    }
    this.rows.forEach((row, i) => {
      const item = this.items[first + i];
      row.style.height = this.height + 'px';
      row.style.top = (first + i) * this.height + 'px';
      row.dataset.index = first + i;
      if (this.pick) row.setAttribute('aria-selected', String(item.key === this.chosen));
      this.fill(row, item);
    });
  }
}

// visible shows what a text hides: characters that control or reorder what stands
// around them, or that have no width. Servers choose names.
export function visible(name) {
  return String(name).replace(/[\p{Cc}\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, escape);
}

// shown is visible for contents: lines and tabs are what they are, and so are the
// marks that scripts and emoji need.
export function shown(content) {
  return content.replace(/[\u202a-\u202e\u2066-\u2069]|(?![\n\r\t])\p{Cc}/gu, escape);
}

const escape = (c) => '\\u' + (c.codePointAt(0) > 0xffff ? '{' + c.codePointAt(0).toString(16) + '}' : c.codePointAt(0).toString(16).padStart(4, '0'));

// line joins names, each of which keeps its direction of writing to itself.
export function line(...names) {
  return names.filter(Boolean).map((n) => '\u2068' + visible(n) + '\u2069').join(' · ');
}

// text makes an element with text, never with markup.
export function text(tag, content, className = '') {
  const e = document.createElement(tag);
  e.textContent = content;
  e.className = className;
  return e;
}
