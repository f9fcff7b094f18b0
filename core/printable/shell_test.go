package printable

import (
	"os/exec"
	"testing"
)

// What Shell returns is one word that means the text itself, to a real shell.
func TestShell(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"plain/path.json", "", "a b", "it's", "$(touch x)", "`id`", `back\slash`, "~", "a;b", "*", "ünï", "!", "#x", "a=b", `"`, "{a,b}"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Shell(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q as %s is %q to the shell, %v", s, Shell(s), out, err)
		}
	}
	if got := Shell("a\x1b]0;x\nb"); got != `'a\x1b]0;x\nb'` {
		t.Errorf("%s", got)
	}
}
