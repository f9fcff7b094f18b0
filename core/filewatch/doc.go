// Package filewatch detects changes to the content at a path, no matter how a program
// saves the file.
//
// A [File] follows one path. Programs replace files in many ways (write in place,
// rename over, remove and create, swap a symbolic link, swap a whole directory), and
// a watch on the file itself receives no events after most of them. A File therefore
// watches the folders of the path, of the links that it leads to and of what it
// resolves to, and sets all watches anew when an entry on these paths is replaced. An
// event only causes a look at the file, as does a slow timer.
//
//   - Loss: the newest settled content is always delivered eventually. States
//     between two deliveries may be skipped. The timer finds saves that cause no events
//     (network file systems, a hard link in another directory, a link to a directory
//     within the path of a link).
//   - Repetition: content equal to the last delivery is not delivered again, for
//     example after touch or chmod. [File.Retry] overrides this once.
//   - Order: states are delivered in the order in which they were read.
//   - Content is settled if all looks within 100 ms found the same, or 1 s after the
//     first look that found something new. A program that pauses for longer while
//     writing may therefore cause partial content to be delivered; renaming a complete
//     file into place never does. Content is not validated.
//   - Absence: a file that is absent, empty or unreadable may be in the middle of a
//     save. That state is delivered, once, only after 1.5 s. Watching continues.
//   - Ownership: Run owns all watches and goroutines and has released them when it
//     returns.
//
// # Trees
//
// A [Tree] follows a directory and all its descendants. It reads no content: it
// delivers batches of paths that the receiver must read again. Every directory has its
// own watch, which is set before the directory is listed, even if the directory is
// created or moved into the tree later.
//
//   - Loss: a receiver that rereads the paths in every batch converges to the state
//     on disk. After lost events (queue overflow, failed source, a directory renamed
//     under its watch), new watches are set and a batch with All set follows;
//     directories that cannot be watched are polled.
//   - Repetition: a path in a batch has not necessarily changed.
//   - Order: paths are delivered together once none has changed for Quiet, or 2 s after
//     the first. A batch of more than 500 paths has All set instead.
//   - Symbolic links inside the directory are not followed; ignored directories are not
//     watched.
//   - Ownership: Run owns all watches and goroutines and has released them when it
//     returns. It never waits for the receiver.
//
// An unresponsive network file system blocks Run for as long as its system calls
// block, but no other part of the program.
//
// Libraries: fsnotify provides events on Linux, the BSDs, macOS and Windows (used only
// in notify.go); golang.org/x/sys/unix provides the magic numbers of file systems that
// send no events.
package filewatch
