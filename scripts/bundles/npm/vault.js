#!/usr/bin/env node
'use strict';
require('mcptrack/launch.js')('mcptrack', ['vault', '--stdio', ...process.argv.slice(2)]);
