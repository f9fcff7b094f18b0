// Preloaded (node --import) into servers that would listen on every interface
// and do not tell which port they got: binds them to loopback and says
// "listening on ORIGIN" on stderr once they accept connections.
import { Server } from 'node:net';

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  if (typeof port !== 'string' && typeof port !== 'number') return listen.call(this, port, ...rest);
  this.once('listening', () => console.error(`listening on http://127.0.0.1:${this.address().port}`));
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest.filter(arg => typeof arg === 'function'));
};
