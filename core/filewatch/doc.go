// Package filewatch says "look again": when the content behind a path may have
// changed, however it was saved.
//
// A File follows one path. Editors, deployment tools and people replace files
// in many ways (write in place, rename over, remove and create, swap a symbolic
// link, swap a whole directory), and a watch on the file itself goes deaf after
// most of them. So a File never watches the file. It watches every directory in
// which a name of the path is looked up, through all symbolic links on the way,
// adds each watch before it looks the name up, and walks the path again whenever
// an entry on it changes. Events only ever mean "look": what was delivered is
// decided by the bytes, read once things are quiet.
//
// # Promises
//
//   - Loss: the newest settled content is always delivered in the end. States
//     between two deliveries may be skipped. A save that gives no event at all
//     (network file systems, a hard link in another directory, a lower layer of
//     an overlay) is found by polling.
//   - Repetition: content equal to what was delivered last is silent, so touch,
//     chmod and saving without a change are. See [File.Retry] for the exception.
//   - Order: deliveries follow the order in which the states were seen.
//   - Settled means: no event for Quiet, or the same bytes twice, Quiet apart,
//     where events cannot be relied upon; and size and modification time did not
//     move while reading. A writer that pauses longer than Quiet, or that writes
//     for longer than MaxWait, is therefore seen in parts. Writing a new file and
//     renaming it into place never is. What is delivered is not validated.
//   - Absence: a file that is absent, empty or unreadable for a moment is taken
//     to be in the middle of a save. Only after 50, 100, 200, 400 and 800 ms
//     (1.55 s in all) is that state delivered, once, and watching goes on.
//   - Ownership: Run owns every watch and the only goroutine there is (inside
//     fsnotify), and has closed both when it returns.
//
// # Trees
//
// A [Tree] follows a directory and all below it, and reads nothing: it names the
// paths to look at again, in batches. Every directory has a watch of its own, set
// before the directory is listed, also for those that are made or moved in later.
//
//   - Loss: a receiver that looks at everything it is told to, after it was told,
//     ends up with what is there. Lost events (an overflow of the queue, a dead
//     source, a directory renamed under its watch) become a look at everything
//     after new watches were set; directories that cannot be watched are polled.
//   - Repetition: to look again does not mean that something changed.
//   - Order: a path is told when it was left alone for Quiet, or after MaxWait; its
//     bursts are its own. More than MaxPaths within a second are one look at
//     everything, once the storm is over or after MaxWait.
//   - Symbolic links below the directory are not followed; what is ignored costs no
//     watch.
//   - Ownership: as above. The receiver is never waited for.
//
// A look at a file on a network file system that hangs blocks Run for as long as
// the kernel does; no other state of the program waits for it.
//
// Libraries: fsnotify for events on Linux, the BSDs, macOS and Windows, in
// notify.go only; golang.org/x/sys/unix for the names of file system types that
// send no events.
package filewatch
