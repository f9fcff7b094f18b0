//go:build unix

package ipc

import (
	"errors"
	"testing"
)

// What JSON cannot carry is not sent: it would arrive as the path of another folder, or another value.
func TestValuesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "/caf\xe9"
	for _, hello := range []Hello{{Purpose: Attach, Folder: bad}, {Purpose: Attach, Folder: "/f", Config: bad}, {Purpose: Attach, Folder: "/f", Path: bad}} {
		c := Client{Socket: socket(t), LookupEnv: lookup(nil), Program: "/nowhere"}
		for _, open := range []func() error{
			func() error { _, _, err := c.Open(t.Context(), hello); return err },
			func() error { _, _, err := c.OpenOrStart(t.Context(), hello); return err },
		} {
			if refused, ok := errors.AsType[*Refused](open()); !ok || refused.Code != CodeText {
				t.Errorf("%+v: %v", hello, open())
			}
		}
	}
	l := listen(t, socket(t))
	done := serve(t, l, Build{}, func(c *Conn) error { _, err := c.Need([]string{"KEY"}); return err })
	c := Client{Socket: l.Addr().String(), LookupEnv: lookup(map[string]string{"KEY": bad})}
	_, _, err := c.Open(t.Context(), Hello{Purpose: Attach, Folder: "/f"})
	if refused, ok := errors.AsType[*Refused](err); !ok || refused.Code != CodeText {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the daemon received a value")
	}
}
