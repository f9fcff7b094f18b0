// A second implementation of the hashes of package lock. It reads lines of JSON
// {"section", "exclude", "definition"} from standard input, with the definition as JSON text, and
// writes one hash for each. JSON.stringify formats numbers and strings as RFC 8785 requires.
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';

const sum = (text) => createHash('sha256').update(text, 'utf8').digest('hex');

function canonical(value) {
  if (Array.isArray(value)) return '[' + value.map(canonical).join(',') + ']';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  // The default order of sort is by UTF-16 code units.
  return '{' + Object.keys(value).sort().map((k) => JSON.stringify(k) + ':' + canonical(value[k])).join(',') + '}';
}

function remove(value, path) {
  const own = value !== null && typeof value === 'object' && !Array.isArray(value) && Object.hasOwn(value, path[0]);
  if (!own) return;
  if (path.length === 1) {
    const member = value[path[0]];
    if (typeof member === 'number' || typeof member === 'string' && /^[0-9+:.TZ-]{0,38}$/.test(member)) delete value[path[0]];
  }
  else remove(value[path[0]], path.slice(1));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { section, exclude, definition } = JSON.parse(line);
  const value = JSON.parse(definition);
  for (const entry of exclude) {
    const [of, ...path] = entry.split('/');
    if (of === section) remove(value, path.map((t) => t.replaceAll('~1', '/').replaceAll('~0', '~')));
  }
  console.log(section === 'instructions' ? sum(value) : sum(canonical(value)));
}
