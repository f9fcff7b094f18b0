// Package nowait reads from and writes to pipes and sockets by system calls that never wait, of which the
// scheduler is not told. It must be told of others, and the first of those after the process was
// idle wakes the thread that looks for system calls that wait. That thread then runs for a while: in a process
// that passes messages on, half of the work and of the context switches. While it sleeps, a goroutine that
// computes for long without system calls or garbage is not interrupted.
//
// The system calls do not wait even if the stream is in blocking mode. Before Linux 6.4, on other systems
// and for other streams, the streams are used as they are; also with the race detector, which takes what one
// test writes to a pipe and reads from it for an order only if package syscall does both.
package nowait
