// Package reload keeps a desired set of servers equal to a config file.
//
// Every settled content of the file is checked whole before anything changes. A
// file that is missing, half written or wrong changes nothing: the last good
// config stays in force and the problems are told, once for every content. What is
// handed on is always a complete config, in the order of the saves; of several
// saves in a row only the newest may be seen (see core/filewatch, which decides
// when a file has settled). config.reloaded is told before the config is applied, so
// that it comes before all that follows from it.
//
// Ownership: Run owns the watch on the file and has ended it when it returns.
package reload
