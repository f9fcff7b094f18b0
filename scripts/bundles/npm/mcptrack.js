#!/usr/bin/env node
'use strict';
require('./launch.js')('mcptrack', process.argv.slice(2));
