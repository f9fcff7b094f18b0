// One event stream for all tabs: the tab that holds the lock listens and tells the
// others. When it closes, the next one takes over and resumes from the last id.
const types = ['server.state', 'subscription.active', 'resource.updated', 'resource.added', 'resource.removed',
  'resource.changed', 'resources.list_changed', 'templates.list_changed', 'prompts.list_changed', 'tools.list_changed',
  'config.reloaded', 'config.rejected', 'gap'];

const patience = 5000; // ms until a stream that was refused for good is asked for again

export function follow(onEvent, onLink) {
  const channel = 'BroadcastChannel' in self ? new BroadcastChannel('mcptrack') : null;
  let last = '', leading = false, link = 'offline';
  const tell = (message) => {
    last = message.id || last;
    if (message.event) onEvent(message.event);
    if (message.link) onLink(message.link);
  };
  if (channel) {
    channel.onmessage = (e) => {
      if (e.data.ask) { if (leading) channel.postMessage({ link, id: last }); } else tell(e.data);
    };
  }
  const both = (message) => { tell(message); channel?.postMessage(message); };
  // For the life of the tab, or until the stream is refused for good: a login has
  // ended, or a proxy answers for mcptrack. EventSource does not try again then.
  const listen = () => new Promise((done) => {
    leading = true;
    const source = new EventSource(last ? '/events?lastEventId=' + encodeURIComponent(last) : '/events');
    const set = (to) => { link = to; both({ link }); };
    source.onopen = () => set('live');
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) { set('reconnecting'); return; }
      set('offline');
      leading = false;
      done();
    };
    source.addEventListener('checkpoint', (e) => both({ id: e.lastEventId }));
    for (const type of types) {
      source.addEventListener(type, (e) => {
        try { both({ event: JSON.parse(e.data), id: e.lastEventId }); } catch { /* not ours to show */ }
      });
    }
  });
  const queue = async () => {
    for (;;) {
      await (channel && navigator.locks ? navigator.locks.request('mcptrack-feed', listen) : listen());
      await new Promise((done) => setTimeout(done, patience)); // others may listen meanwhile
    }
  };
  channel?.postMessage({ ask: true });
  queue();
}
