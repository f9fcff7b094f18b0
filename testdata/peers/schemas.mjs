// Checks results of a server with the schemas of the official TypeScript SDKs 1 and 2, which reject a
// whole result for one wrong member.
//
// stdin: a JSON list of {"name": TEXT, "schema": "ListToolsResult", "value": …}; version 2 only if
// "modern" is true. stdout: one line for each value that is rejected.
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import * as core from '@modelcontextprotocol/core';
import * as skills from '@modelcontextprotocol/core/ext/skills';
import { readFileSync } from 'node:fs';

const v2 = { ...core, ...skills };
for (const { name, schema, value, modern } of JSON.parse(readFileSync(0, 'utf8'))) {
  for (const [sdk, schemas] of modern ? [['v2', v2]] : [['v1', v1], ['v2', v2]]) {
    const { error } = schemas[`${schema}Schema`].safeParse(value);
    if (error) console.log(`${name}: ${sdk}: ${JSON.stringify(error.issues)}`);
  }
}
