package login_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/login"
)

func TestParseChallenge(t *testing.T) {
	for _, c := range []struct{ header, want string }{
		{`Bearer`, `"" [] "" "" false`},
		{`Bearer resource_metadata="https://a.example/x?a=1,b", scope="read write", error="invalid_token"`, `"https://a.example/x?a=1,b" [read write] "invalid_token" "" false`},
		{`bearer ERROR = "a\"b\\c" , Error_Description=  "x, Basic y=z"`, `"" [] "a\"b\\c" "x, Basic y=z" false`},
		{`Bearer resource_metadata=https://a.example/x, error=expired`, `"https://a.example/x" [] "expired" "" false`},
		{`Bearer error="a" error_description="b", scope=""`, `"" [] "a" "b" false`},
		{`Basic realm="x, y", Bearer error="a"`, `"" [] "a" "" true`},
		{`Bearer error="a", Basic`, `"" [] "a" "" true`},
		{`Negotiate a+b/c==, Bearer error="a"`, `"" [] "a" "" false`},
		{`Negotiate abc, , Basic`, `"" [] "" "" true`},
		{`Digest error="no", Bearer error="first", Bearer error="second"`, `"" [] "first" "" false`},
		// What is malformed is ignored.
		{``, `"" [] "" "" false`},
		{`, ,`, `"" [] "" "" false`},
		{`error="a"`, `"" [] "" "" false`},
		{`"Bearer error=a`, `"" [] "" "" false`},
		{`Bearer error="a`, `"" [] "" "" false`},
		{`Bearer error="a\`, `"" [] "" "" false`},
		{`Bearer error=`, `"" [] "" "" false`},
		{`Bearer error=a, b`, `"" [] "a" "" false`},
		{`Bearer x="a", error=, Basic`, `"" [] "" "" false`},
		{`Bearer error="a", ="b"`, `"" [] "" "" false`},
		{"Bearer error=\"a\", \x00", `"" [] "" "" false`},
	} {
		got := login.ParseChallenge([]string{c.header})
		if text := fmt.Sprintf("%q %v %q %q %t", got.Metadata, got.Scopes, got.Code, got.Description, got.Basic); text != c.want {
			t.Errorf("%s: %s, want %s", c.header, text, c.want)
		}
	}
	for _, hostile := range []string{"Bearer ", "a=", `"`, `\`, ",", "Bearer a=", `Bearer a="`} {
		login.ParseChallenge([]string{strings.Repeat(hostile, 1<<20/len(hostile))})
	}
}
