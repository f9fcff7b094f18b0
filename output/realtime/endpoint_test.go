package realtime

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestEndpointURL(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "wss://api.openai.com/v1/realtime?call_id=rtc_1"},
		{"https://h", "wss://h/v1/realtime?call_id=rtc_1"},
		{"wss://h/", "wss://h/v1/realtime?call_id=rtc_1"},
		{"wss://h/v1", "wss://h/v1/realtime?call_id=rtc_1"},
		{"WSS://h/openai/v1/", "wss://h/openai/v1/realtime?call_id=rtc_1"},
		{"wss://h/other?a=b&call_id=x#f", "wss://h/other?a=b&call_id=rtc_1"},
		{"http://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/realtime?call_id=rtc_1"},
		{"ws://[::1]:1/x", "ws://[::1]:1/x?call_id=rtc_1"},
		{"ws://localhost", "ws://localhost/v1/realtime?call_id=rtc_1"},
	} {
		e := Endpoint{URL: c.in, Query: url.Values{"call_id": {"rtc_1"}}}
		u, _, err := e.parse()
		if err == nil {
			err = e.Check()
		}
		if err != nil || u.String() != c.want {
			t.Errorf("%q: %v, %v, want %s", c.in, u, err, c.want)
		}
	}
	for _, in := range []string{"ws://h", "http://10.0.0.1", "ws://127.0.0.1.evil.example", "ftp://h", "h:1", "wss://", "wss://u:pw@h", "wss://h/%zz"} {
		e := Endpoint{URL: in}
		err := e.Check()
		if _, ok := errors.AsType[*OptionError](err); !ok || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", in, err)
		}
	}
	if err := (&Endpoint{URL: "ws://h", Insecure: true}).Check(); err != nil {
		t.Error(err)
	}
}

func TestEndpointHeader(t *testing.T) {
	for name, value := range map[string]string{"OpenAI-Beta": "realtime=v1", "connection": "close", "Sec-WebSocket-Key": "x", "Host": "h", "a b": "x", "": "x", "X": "a\r\nY: b", "Y": "\x00"} {
		e := Endpoint{Header: http.Header{name: {value}}}
		if _, ok := errors.AsType[*OptionError](e.Check()); !ok {
			t.Errorf("%q: %q was accepted", name, value)
		}
	}
	if err := (&Endpoint{Header: http.Header{"Authorization": {"Bearer x"}, "OpenAI-Safety-Identifier": {"a b\tc"}}}).Check(); err != nil {
		t.Error(err)
	}
}

// An endpoint hides its secrets in every format.
func TestEndpointKeepsSecrets(t *testing.T) {
	e := Endpoint{URL: "wss://h/x?key=secret", Query: url.Values{"k": {"secret"}}, Header: http.Header{"Authorization": {"secret"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{e, &e, SessionOptions{Endpoint: e}, ProxyOptions{Upstream: e}} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "secret") || !strings.Contains(got, "wss://h/x") {
				t.Errorf("%s of %T: %s", format, v, got)
			}
		}
	}
	s, err := NewSession(SessionOptions{Endpoint: Endpoint{URL: "ws://127.0.0.1:1/?key=secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.connect(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestEndToEnd(t *testing.T) {
	to := http.Header{}
	addEndToEnd(to, http.Header{"Connection": {"Upgrade, X-One", "x-two"}, "X-One": {"1"}, "X-Two": {"2"}, "X-Three": {"3", "4"},
		"Upgrade": {"websocket"}, "Sec-Websocket-Key": {"k"}, "Keep-Alive": {"1"}, "Proxy-Authorization": {"p"}, "Te": {"t"}, "Host": {"h"}, "Authorization": {"a"}})
	if len(to) != 2 || len(to["X-Three"]) != 2 || to.Get("Authorization") != "a" {
		t.Errorf("%v", to)
	}
}

func TestOptionErrors(t *testing.T) {
	bad := DeliveryOptions{Message: MessageOptions{Role: "developer"}}
	_, err := NewSession(SessionOptions{Delivery: bad})
	_, proxyErr := NewProxy(ProxyOptions{Delivery: bad})
	for _, err := range []error{err, proxyErr} {
		if o, ok := errors.AsType[*OptionError](err); !ok || o.Option != "role" {
			t.Errorf("%v", err)
		}
	}
}
