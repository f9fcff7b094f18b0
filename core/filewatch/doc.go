// Package filewatch detects changes of the content at a path, however a program
// saves it.
//
// A [File] follows one path. Programs replace files in many ways (write in place,
// rename over, remove and create, swap a symbolic link, swap a whole directory), and
// a watch on the file itself gets no events after most of them. A File therefore
// watches every directory in which a name of the path is looked up, through all
// symbolic links. It adds each watch before looking the name up, and resolves the
// path again whenever an entry on it changes. An event only triggers a check: the
// bytes, read after a quiet period, decide what is delivered.
//
// # Promises
//
//   - Loss: the newest settled content is always delivered eventually. States
//     between two deliveries may be skipped. Polling finds a save without events
//     (network file systems, a hard link in another directory, a lower layer of an
//     overlay).
//   - Repetition: content equal to the last delivery is not delivered again, for
//     example after touch or chmod. [File.Retry] makes an exception.
//   - Order: deliveries follow the order in which the states were seen.
//   - Settled means: no event for Quiet or, where events are unreliable, the same
//     bytes twice, Quiet apart; in both cases size and modification time did not
//     change during the read. A writer that pauses longer than Quiet, or writes for
//     longer than MaxWait, is therefore seen in parts; renaming a new file into
//     place never is. Content is not validated.
//   - Absence: a file that is absent, empty or unreadable may be in the middle of a
//     save. The state is delivered, once, only after retries 50, 100, 200, 400 and
//     800 ms apart (1.55 s in all). Watching continues.
//   - Ownership: Run owns all watches and goroutines and has released them when it
//     returns.
//
// # Trees
//
// A [Tree] follows a directory and everything below it. It reads no content: it
// delivers batches of paths to read again. Every directory has its own watch, set
// before the directory is listed, even if it is created or moved in later.
//
//   - Loss: a receiver that rereads the paths of every batch converges to what is on
//     disk. After lost events (queue overflow, failed source, a directory renamed
//     under its watch) new watches are set and a batch for everything follows;
//     directories that cannot be watched are polled.
//   - Repetition: a path in a batch has not necessarily changed.
//   - Order: a path is delivered once it has been quiet for Quiet, or after MaxWait,
//     independently of other paths. More than MaxPaths within a second become one
//     batch for everything, once they are quiet or after MaxWait.
//   - Symbolic links below the directory are not followed; ignored directories have
//     no watch.
//   - Ownership: as above. Run never waits for the receiver.
//
// An unresponsive network file system blocks Run for as long as it blocks the
// kernel, and nothing else in the program.
//
// Libraries: fsnotify for events on Linux, the BSDs, macOS and Windows, in
// notify.go only; golang.org/x/sys/unix for the names of file system types that
// send no events.
package filewatch
