package process

// RoomForFiles returns nil: Windows has no such limit.
func RoomForFiles() error { return nil }

// Explain returns the error as it is.
func Explain(err error) error { return err }

func explainFork(err error) error { return err }
