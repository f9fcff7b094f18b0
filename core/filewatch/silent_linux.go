package filewatch

import "golang.org/x/sys/unix"

// silentFS returns the type of dir's file system if some changes on it may cause no events, because
// another host, a server in user space, or the lower layer of an overlay makes them. It returns ""
// for any other file system, and if the type is unknown.
func silentFS(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	return silentKind(uint32(st.Type)) // the size and signedness of Type differ by architecture
}

func silentKind(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.FUSE_SUPER_MAGIC: // includes virtiofs and most desktop mounts
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.PROC_SUPER_MAGIC:
		return "proc"
	case unix.SYSFS_MAGIC:
		return "sysfs"
	}
	return ""
}
