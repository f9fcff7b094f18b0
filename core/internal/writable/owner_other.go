//go:build !unix

package writable

import "io/fs"

const hasOwners = false

func ownerOf(fs.FileInfo) int { return 0 }

func readOnly(string) bool { return false }

func ownGroup(fs.FileInfo) bool { return false }
