// Package proctable reads the process table of Linux; see proc(5). gopsutil, which core/machine uses on
// other systems, reads the counters of all processors whenever a program starts.
package proctable
