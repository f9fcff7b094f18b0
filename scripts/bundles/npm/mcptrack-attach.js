#!/usr/bin/env node
'use strict';
require('./launch.js')('mcptrack-attach', process.argv.slice(2));
