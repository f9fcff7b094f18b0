// Package reload keeps a desired set of servers equal to a config file.
//
// Every settled content of the file is validated as a whole before anything changes. A
// file that is missing, half written or invalid changes nothing: the last good config
// stays in use and the problems are published, once for every content. Only complete
// configs are applied, in the order of the saves; of several saves in a row only the
// newest may be applied (see core/filewatch, which decides when a file has settled).
// config.reloaded is published before the config is applied, so that it precedes all
// events that follow from it.
//
// What the user has not approved is held back (see [Hold]): an approved entry stays in use in its
// place, and the rest of the config is applied.
//
// Files that the config refers to (envFile, ${file:PATH}, and a folder, or a program
// named by its path, that is missing) are looked at every second; a change of one that
// makes a difference to the config counts as a change of the config.
//
// Ownership: Run owns the watch on the file and has ended it when it returns.
package reload
