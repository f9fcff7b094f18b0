// One event stream for all tabs: the tab that holds the lock listens and tells the
// others. When it closes, the next one takes over and resumes from the last id.
const types = ['server.state', 'subscription.active', 'resource.updated', 'resource.added', 'resource.removed',
  'resource.changed', 'resources.list_changed', 'templates.list_changed', 'prompts.list_changed', 'tools.list_changed',
  'config.reloaded', 'config.rejected', 'gap'];

export function follow(onEvent, onLink) {
  const channel = 'BroadcastChannel' in self ? new BroadcastChannel('mcptrack') : null;
  let last = '';
  const tell = (message) => {
    if (message.event) { last = message.event.id || last; onEvent(message.event); }
    if (message.link) onLink(message.link);
  };
  if (channel) {
    channel.onmessage = (e) => {
      if (e.data.ask) { if (leading) channel.postMessage({ link }); } else tell(e.data);
    };
  }
  let leading = false, link = 'offline';
  const both = (message) => { tell(message); channel?.postMessage(message); };
  const listen = () => new Promise(() => { // for the life of the tab
    leading = true;
    const url = last ? '/events?lastEventId=' + encodeURIComponent(last) : '/events';
    const source = new EventSource(url);
    const set = (to) => { link = to; both({ link }); };
    source.onopen = () => set('live');
    source.onerror = () => set(source.readyState === EventSource.CLOSED ? 'offline' : 'reconnecting');
    for (const type of types) {
      source.addEventListener(type, (e) => {
        try { both({ event: JSON.parse(e.data) }); } catch { /* not ours to show */ }
      });
    }
  });
  if (channel && navigator.locks) {
    channel.postMessage({ ask: true });
    navigator.locks.request('mcptrack-feed', listen);
  } else {
    listen();
  }
}
