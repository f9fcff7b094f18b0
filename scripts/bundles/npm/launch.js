'use strict';
// Runs a program of the package of this platform. On Linux and macOS, Node 22.15 or later replaces this
// process by the program, so that no second one remains. Elsewhere the program is a child: it has the
// same stdio, gets the signals, and its exit code or signal becomes the result of this process.

const fs = require('node:fs');
const path = require('node:path');
const tty = require('node:tty');
const { spawn } = require('node:child_process');

function fail(message) {
  process.stderr.write(`mcptrack: ${message}\n`);
  process.exit(1);
}

function find(name) {
  const platform = `${process.platform}-${process.arch}`;
  const wanted = `@mcptrack/${platform}`;
  const packages = require('./package.json').optionalDependencies;
  if (!packages[wanted]) {
    const others = Object.keys(packages).map((p) => p.replace('@mcptrack/', '')).join(', ');
    fail(`there is no program for ${platform}, only for ${others}; with Go, build it from https://github.com/mcptrack/mcptrack`);
  }
  let program;
  try {
    const folder = path.dirname(require.resolve(`${wanted}/package.json`));
    program = path.join(folder, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
  } catch {
    fail(`the package ${wanted}, which contains the program, is not installed; install mcptrack again, without --omit=optional or --no-optional, and on this platform`);
  }
  try {
    fs.accessSync(program, fs.constants.X_OK);
  } catch (err) {
    fail(`${err.message}; install mcptrack again`);
  }
  return program;
}

module.exports = function launch(name, args) {
  const program = find(name);
  if (process.platform !== 'win32' && typeof process.execve === 'function') {
    process.execve(program, [program, ...args], process.env);
  }

  // A terminal sends SIGINT, SIGQUIT and SIGHUP to the child, too. A second SIGINT would kill it.
  const terminal = [0, 1, 2].some((fd) => tty.isatty(fd));
  const child = spawn(program, args, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGTERM']) {
    process.on(signal, () => {
      if (signal === 'SIGTERM' || !terminal) child.kill(signal);
    });
  }
  child.on('error', (err) => fail(`${program} does not start: ${err.message}`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
};
