// Elements are made from text, never from markup: servers choose names and contents.

// visible escapes the characters of a name that are invisible or reorder the text
// around them.
export function visible(name) {
  return String(name).replace(/[\p{Cc}\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, escape);
}

// shown is visible for contents: it leaves lines, tabs, and the marks that scripts and
// emoji need.
export function shown(content) {
  return content.replace(/[\u202a-\u202e\u2066-\u2069]|(?![\n\r\t])\p{Cc}/gu, escape);
}

const escape = (c) => '\\u' + (c.codePointAt(0) > 0xffff ? '{' + c.codePointAt(0).toString(16) + '}' : c.codePointAt(0).toString(16).padStart(4, '0'));

// element makes an element with a class and with children, which are texts or elements.
export function element(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children.filter((c) => c !== '' && c != null && c !== false));
  return e;
}

// name shows a name that a server chose. <bdi> keeps its writing direction to itself.
export const name = (text, className) => element('bdi', className, visible(text));

// line joins names and elements with dots.
export function line(className, ...parts) {
  const e = element('span', className);
  for (const part of parts) {
    if (!part) continue;
    if (e.hasChildNodes()) e.append(' · ');
    e.append(part instanceof Node ? part : name(part));
  }
  return e;
}

export const size = (n) => n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toFixed(1) + ' KiB' : (n / 1048576).toFixed(1) + ' MiB';
export const count = (n, what) => n.toLocaleString() + ' ' + what + (n === 1 ? '' : 's');
export const clock = (iso) => iso ? new Date(iso).toLocaleTimeString() : '';
export const shortDigest = (digest) => (digest || '').replace(/^sha256:/, '').slice(0, 8);

// digest shows the beginning of a digest, with the whole one on hover.
export function digest(text) {
  const e = element('span', 'mono', shortDigest(text));
  e.title = text;
  return e;
}

// ago shows a time relative to now, with the exact one on hover. refreshTimes keeps all
// of them up to date.
export function ago(iso) {
  if (!iso) return '';
  const e = element('time');
  e.dateTime = iso;
  e.title = new Date(iso).toLocaleString(undefined, { dateStyle: 'full', timeStyle: 'long' });
  e.textContent = relative(iso);
  return e;
}

export function refreshTimes() {
  for (const e of document.querySelectorAll('time[datetime]')) {
    const text = relative(e.dateTime);
    if (e.textContent !== text) e.textContent = text;
  }
}

const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
function relative(iso) {
  const seconds = Math.round((Date.now() - Date.parse(iso)) / 1000);
  if (Math.abs(seconds) < 2) return 'now';
  const [unit, length] = units.find(([, n]) => Math.abs(seconds) >= n);
  const n = Math.floor(Math.abs(seconds) / length);
  return seconds < 0 ? `in ${n} ${unit}` : `${n} ${unit} ago`;
}

// facts makes a list of names and values, without those that have no value.
export function facts(entries) {
  const list = element('dl');
  for (const [what, value] of entries) {
    if (value === '' || value == null || value === false) continue;
    list.append(element('dt', '', what), element('dd', '', value instanceof Node ? value : name(value)));
  }
  return list;
}
