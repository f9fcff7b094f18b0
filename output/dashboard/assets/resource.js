// The page of a resource: its content, the difference of two versions, its history.
import { diff } from './diff.js';
import { ago, clock, digest, element, line, shortDigest, shown, size, visible } from './dom.js';
import { causes, eventsOf } from './feed.js';
import { api, get, go, state } from './state.js';

const $ = (id) => document.getElementById(id);
const maxResources = 50, maxVersions = 200;
const pages = new Map(); // server and URI → {now, versions, log, texts}, the newest last

const key = () => state.server + '\n' + state.uri;

function page() {
  let p = pages.get(key());
  if (!p) p = { now: null, versions: [], log: [], texts: new Map() };
  pages.delete(key());
  pages.set(key(), p);
  if (pages.size > maxResources) pages.delete(pages.keys().next().value);
  return p;
}

// load asks for the current content and the history. What is shown stays on a failure.
export async function loadResource(changed) {
  const at = key(), p = page(), { server, uri } = state;
  try {
    const now = await get(api(server, '/content', { uri }));
    p.now = now;
    if (now.text != null && now.digest) p.texts.set(now.digest, now.text);
    note(p, { digest: now.digest, at: now.changed || new Date().toISOString(), size: now.size, gone: now.gone, text: now.text != null });
  } catch { return; }
  if (at === key()) changed();
  try {
    const { events, texts = [] } = await get('/api/history?' + new URLSearchParams({ server, uri }));
    p.log = events;
    for (const e of [...events].reverse()) {
      // The version before the first stored change is known by its digest alone.
      if (texts.includes(e.previousDigest)) note(p, { digest: e.previousDigest, at: e.timestamp, text: true });
      if (e.type === 'resource.updated' && e.digest && e.changed !== false) note(p, { digest: e.digest, at: e.timestamp, size: e.size, text: texts.includes(e.digest) });
    }
  } catch { /* without a log there are only the events since this page was opened */ }
  if (at === key()) changed();
}

// note adds a version, or what was not known about it.
function note(p, v) {
  if (!v.digest) return;
  const known = p.versions.find((k) => k.digest === v.digest);
  if (known) {
    known.text = known.text || v.text;
    known.size ??= v.size;
    if (v.at > known.at && v.digest === p.now?.digest) known.at = v.at;
  } else p.versions.push(v);
  p.versions.sort((a, b) => (b.digest === p.now?.digest) - (a.digest === p.now?.digest) || b.at.localeCompare(a.at));
  for (const old of p.versions.splice(maxVersions)) p.texts.delete(old.digest);
}

async function textOf(p, wanted, server, uri) {
  if (!p.texts.has(wanted)) {
    const { text } = await get(api(server, '/content', { uri, digest: wanted }));
    p.texts.set(wanted, text);
  }
  return p.texts.get(wanted);
}

export const resourceTabs = [['content', 'Content'], ['diff', 'Differences'], ['history', 'History']];

export function showResource(tab) {
  const p = page(), now = p.now;
  $('detail-title').replaceChildren(element('bdi', '', visible(state.uri)));
  const back = element('button', 'link', visible(state.server));
  back.type = 'button';
  back.onclick = () => go({ uri: '', event: '', tab: '', from: '', to: '' }, true);
  $('detail-meta').replaceChildren(now ? line('', back, now.mimeType, now.gone ? 'removed' : size(now.size), now.digest && digest(now.digest), now.changed && element('span', '', 'changed ', ago(now.changed))) : line('', back, 'loading…'));
  $('compare').hidden = tab !== 'diff';
  if (!now) return [];
  return { content: showContent, diff: showDiff, history: showHistory }[tab](p);
}

// isImage reports whether the server hands the content out as an image.
const isImage = (v) => v.text == null && !v.gone && /^image\/(png|jpeg|gif|webp)$/.test(v.mimeType || '') && v.size <= 4 << 20;

function showContent({ now }) {
  if (now.gone) return [element('p', '', 'The server has removed this resource.')];
  if (now.text != null) return [element('pre', '', shown(now.text))];
  const about = `${visible(now.mimeType || 'unknown type')}, ${size(now.size)}`;
  if (!isImage(now)) return [element('p', '', `The content is not text, too large, or cannot be read: ${about}.`)];
  const url = api(state.server, '/image', { uri: state.uri, digest: now.digest || '' });
  const shownNow = $('detail-body').querySelector('img');
  if (shownNow?.getAttribute('src') === url) return [shownNow];
  const image = element('img');
  image.alt = visible(state.uri);
  image.onerror = () => image.replaceWith(element('p', '', `The image cannot be shown: ${about}.`));
  image.src = url;
  return [image];
}

let compared = {}; // the versions that are shown, and their difference
const label = (v) => `${clock(v.at)} – ${shortDigest(v.digest)}`;

function showDiff(p) {
  const available = p.versions.filter((v) => v.text);
  if (available.length < 2) {
    $('compare').hidden = true;
    return [element('p', '', 'No other version with a stored text exists yet.')];
  }
  const has = (d) => available.some((v) => v.digest === d);
  const to = has(state.to) ? state.to : available[0].digest;
  const before = available[available.findIndex((v) => v.digest === to) + 1] || available.find((v) => v.digest !== to);
  const from = has(state.from) ? state.from : before.digest;
  for (const [id, chosen] of [['diff-from', from], ['diff-to', to]]) {
    const options = $(id).options; // kept if they are the same, as one of them may be open
    if (options.length !== available.length || available.some((v, i) => options[i].value !== v.digest)) $(id).replaceChildren(...available.map((v) => new Option(label(v), v.digest)));
    $(id).value = chosen;
    $(id).onchange = () => go({ from: $('diff-from').value, to: $('diff-to').value });
  }
  const pair = [state.server, state.uri, from, to].join('\n');
  if (compared.pair === pair) return [compared.out]; // comparing long texts takes a while
  const out = element('pre', 'diff', 'loading…'), { server, uri } = state;
  compared = { pair, out };
  Promise.all([textOf(p, from, server, uri), textOf(p, to, server, uri)]).then(([a, b]) => {
    out.replaceChildren(...(a === b ? ['The texts are equal.'] : diff(a, b).map(([sign, l]) => element('span', { '+': 'add', '-': 'del' }[sign] || '', sign + shown(l) + '\n'))));
  }, () => { out.textContent = 'One of the versions is no longer available.'; compared = {}; });
  return [out];
}

function showHistory(p) {
  const known = new Set(p.log.map((e) => e.id));
  const all = [...eventsOf(state.server, state.uri).filter((e) => !known.has(e.id)), ...p.log];
  if (!all.length) return [element('p', '', 'No event about this resource is stored.')];
  const available = new Set(p.versions.filter((v) => v.text).map((v) => v.digest));
  const compare = (from, to) => {
    const button = element('button', '', 'Compare');
    button.type = 'button';
    button.onclick = () => go({ tab: 'diff', from, to }, true);
    return button;
  };
  return [element('ol', 'history', ...all.map((e) => element('li', '',
    line('', ago(e.timestamp), e.type.replace('resource.', ''), causes[e.cause] || e.cause, e.changed === false && 'same content', e.size != null && size(e.size), e.digest && digest(e.digest)),
    available.has(e.digest) && available.has(e.previousDigest) && compare(e.previousDigest, e.digest))))];
}
