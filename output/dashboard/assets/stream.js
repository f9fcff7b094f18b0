// All tabs share one event stream: the tab that holds the lock reads it and forwards the
// events to the others. When it is closed, another tab resumes after the last id.
const retryAfter = 5000; // ms until a refused stream is requested again

export function follow(onEvent, onLink) {
	const channel = 'BroadcastChannel' in self ? new BroadcastChannel('mcptrack') : null;
	let last = '', leading = false, link = 'offline';
	const receive = (message) => {
		last = message.id || last;
		if (message.event) onEvent(message.event);
		if (message.link) onLink(message.link);
	};
	if (channel) {
		channel.onmessage = (e) => {
			if (e.data.ask) { if (leading) channel.postMessage({ link, id: last }); } else receive(e.data);
		};
	}
	const share = (message) => { receive(message); channel?.postMessage(message); };
	// listen resolves when the stream is refused: the login has expired, or a proxy
	// answered. EventSource does not retry then.
	const listen = () => new Promise((done) => {
		leading = true;
		const source = new EventSource('/events?described=1' + (last && '&lastEventId=' + encodeURIComponent(last)));
		const set = (to) => { link = to; share({ link }); };
		source.onopen = () => set('live');
		source.onerror = () => {
			if (source.readyState !== EventSource.CLOSED) { set('reconnecting'); return; }
			set('offline');
			leading = false;
			done();
		};
		source.addEventListener('checkpoint', (e) => share({ id: e.lastEventId }));
		source.onmessage = (e) => {
			try { share({ event: JSON.parse(e.data), id: e.lastEventId }); } catch { /* not an event */ }
		};
	});
	const queue = async () => {
		for (;;) {
			await (channel && navigator.locks ? navigator.locks.request('mcptrack-feed', listen) : listen());
			await new Promise((done) => setTimeout(done, retryAfter)); // another tab may take over meanwhile
		}
	};
	channel?.postMessage({ ask: true });
	queue();
}
