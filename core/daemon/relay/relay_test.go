package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bench is a relay between a client and daemons, which the test plays.
type bench struct {
	t       *testing.T
	client  io.WriteCloser // writes to the relay
	out     *bufio.Reader  // reads from the relay
	daemons chan *daemon   // each connection; receives nothing while refuse is set
	refuse  chan error     // an error for the next connection
	done    chan error
	stop    context.CancelFunc
}

// halfClosing is a connection whose sending side can be closed, as that of a socket; the daemon of
// the tests does not notice.
type halfClosing struct{ net.Conn }

func (halfClosing) CloseWrite() error { return nil }

type daemon struct {
	net.Conn
	in   *bufio.Reader
	seen map[string]string
}

func start(t *testing.T) *bench {
	in, client := io.Pipe()
	out, clientOut := io.Pipe()
	b := &bench{t: t, client: client, out: bufio.NewReader(out), daemons: make(chan *daemon), refuse: make(chan error, 100), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go func() {
		err := Run(ctx, Options{In: in, Out: clientOut, Lost: func(error) {}, Connect: func(ctx context.Context, seen map[string]string) (io.ReadWriteCloser, error) {
			select {
			case err := <-b.refuse:
				return nil, err
			default:
			}
			here, there := net.Pipe()
			select {
			case b.daemons <- &daemon{there, bufio.NewReader(there), seen}:
				return halfClosing{here}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}})
		_ = clientOut.Close()
		b.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
		_ = out.Close()
	})
	return b
}

// relayed runs test with a relay in fake time.
func relayed(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, start(t)) })
}

// refuseWith makes all connections fail, until accept.
func (b *bench) refuseWith(problem string) {
	for len(b.refuse) < cap(b.refuse) {
		b.refuse <- errors.New(problem)
	}
}

func (b *bench) accept() {
	for len(b.refuse) > 0 {
		<-b.refuse
	}
}

// sends passes a line from the client to a daemon, and receives passes one back.
func (b *bench) sends(d *daemon, line string) {
	b.t.Helper()
	b.says(line)
	d.hears(b.t, line)
}

func (b *bench) receives(d *daemon, line string) {
	b.t.Helper()
	d.says(b.t, line)
	b.hears(line)
}

func (b *bench) says(line string) {
	b.t.Helper()
	if _, err := io.WriteString(b.client, line+"\n"); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) hears(want string) {
	b.t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil || strings.TrimSuffix(line, "\n") != want {
		b.t.Fatalf("the client received %q, %v; want %q", line, err, want)
	}
}

func (b *bench) hearsError(id, text string) {
	b.t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil || !strings.Contains(line, `"id":`+id+`,`) || !strings.Contains(line, text) {
		b.t.Fatalf("the client received %q, %v; want an error for %s: %s", line, err, id, text)
	}
}

func (d *daemon) hears(t *testing.T, want string) {
	t.Helper()
	line, err := d.in.ReadString('\n')
	if err != nil || strings.TrimSuffix(line, "\n") != want {
		t.Fatalf("the daemon received %q, %v; want %q", line, err, want)
	}
}

func (d *daemon) says(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(d, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params)
}

func response(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// connect completes the handshake of a legacy client.
func (b *bench) connect() *daemon {
	b.t.Helper()
	d := <-b.daemons
	b.says(request(1, "initialize", ""))
	d.hears(b.t, request(1, "initialize", ""))
	d.says(b.t, response(1))
	b.hears(response(1))
	b.says(initialized)
	d.hears(b.t, initialized)
	return d
}

// reconnect plays the daemon that follows a lost one, up to the end of the handshake.
func (b *bench) reconnect() *daemon {
	b.t.Helper()
	d := <-b.daemons
	d.hears(b.t, request(1, "initialize", ""))
	d.says(b.t, response(1))
	d.hears(b.t, initialized)
	return d
}

// A client's initialize is remembered for the next daemon although a byte order mark precedes it.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	if m := parse([]byte("\ufeff" + request(1, "initialize", ""))); !m.request || m.method != "initialize" {
		t.Errorf("%+v", m)
	}
}

// What the client sends after a daemon has said that it ends waits for the next one.
func TestADaemonThatEndsLosesNoRequest(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/call", ""))
		d.says(t, `{"mcptrack":{"ends":true}}`)
		synctest.Wait()
		b.says(request(3, "tools/call", ""))
		synctest.Wait()
		b.receives(d, response(2))
		_ = d.Close()
		d = b.reconnect()
		d.hears(t, request(3, "tools/call", ""))
		b.receives(d, response(3))
	})
}

// That is so also if the daemon ends while the session is continued with it.
func TestADaemonThatEndsSoonLosesNoRequest(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		_ = b.connect().Close()
		d := <-b.daemons
		d.hears(t, request(1, "initialize", ""))
		d.says(t, `{"mcptrack":{"ends":true}}`)
		d.says(t, response(1))
		d.hears(t, initialized)
		b.says(request(2, "tools/call", ""))
		synctest.Wait()
		_ = d.Close()
		d = b.reconnect()
		d.hears(t, request(2, "tools/call", ""))
		b.receives(d, response(2))
	})
}

// A daemon that ends may need longer for its last responses than requests wait after a loss.
func TestRequestsOutlastADaemonThatEndsSlowly(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/call", ""))
		d.says(t, `{"mcptrack":{"ends":true}}`)
		synctest.Wait()
		b.says(request(3, "ping", "")) // waits
		time.Sleep(5 * time.Second)
		b.receives(d, response(2))
		_ = d.Close()
		time.Sleep(time.Second)
		d = b.reconnect()
		d.hears(t, request(3, "ping", ""))
	})
}

// Requests wait longer for a daemon that takes over from another one, which may be busy.
func TestRequestsOutlastASlowHandover(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		d.says(t, `{"mcptrack":{"ends":true,"handover":true}}`)
		synctest.Wait()
		_ = d.Close()
		b.says(request(2, "ping", ""))
		time.Sleep(20 * time.Second)
		d = b.reconnect()
		d.hears(t, request(2, "ping", ""))
		b.receives(d, response(2))

		_ = d.Close() // this daemon hands over to none
		synctest.Wait()
		b.says(request(3, "ping", ""))
		began := time.Now()
		b.hearsError("3", "cannot be reached")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the request waited %s", took)
		}
	})
}

// A client that has left receives the last responses of a daemon that ends.
func TestADaemonThatEndsAnswersAClientThatHasLeft(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/call", ""))
		d.says(t, `{"mcptrack":{"ends":true}}`)
		synctest.Wait()
		_ = b.client.Close()
		synctest.Wait()
		b.receives(d, response(2))
		_ = d.Close()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnotherDaemonContinuesALegacySession(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "resources/subscribe", `"uri":"a"`))
		b.receives(d, response(2))
		b.sends(d, request(4, "tools/call", ""))
		_ = d.Close()
		b.hearsError("4", "may have been executed")
		d = b.reconnect()
		d.hears(t, request(2, "resources/subscribe", `"uri":"a"`))
		d.says(t, response(2))
		b.receives(d, `{"jsonrpc":"2.0","method":"notifications/message"}`) // and no response again
		b.sends(d, request(5, "tools/call", ""))
		b.receives(d, response(5))
		b.sends(d, request(6, "resources/unsubscribe", `"uri":"a"`))
		b.receives(d, response(6))
		_ = d.Close()
		d = b.reconnect()
		b.says(request(7, "ping", "")) // the subscription is not repeated
		d.hears(t, request(7, "ping", ""))
	})
}

func TestAModernClientListensAgain(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := <-b.daemons
		for id := range 2 {
			b.sends(d, request(id, "subscriptions/listen", ""))
		}
		b.sends(d, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
		_ = d.Close()
		d = <-b.daemons
		d.hears(t, request(1, "subscriptions/listen", ""))
		d.says(t, response(1)) // the response belongs to the client
		b.hears(response(1))
	})
}

func TestARequestWaitsForADaemonForALimitedTime(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.refuseWith("no daemon")
		_ = d.Close()
		synctest.Wait()
		began := time.Now()
		b.says(request(2, "tools/call", ""))
		b.hearsError("2", "was not sent")
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		b.accept()
		d = b.reconnect()
		b.sends(d, request(3, "ping", ""))
	})
}

// A daemon that dies before it has answered initialize does not end the client.
func TestInitializeIsRepeatedUntilItIsAnswered(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := <-b.daemons
		b.sends(d, request(1, "initialize", ""))
		_ = d.Close()
		d = <-b.daemons
		d.hears(t, request(1, "initialize", ""))
		b.receives(d, response(1))
	})
}

func TestInitializeDoesNotWaitForever(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := <-b.daemons
		b.sends(d, request(1, "initialize", ""))
		b.refuseWith("the config is invalid")
		began := time.Now()
		_ = d.Close()
		b.hearsError("1", "the config is invalid")
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
		b.accept()
		d = <-b.daemons
		synctest.Wait()
		b.sends(d, request(2, "initialize", ""))
	})
}

func TestTheRelayEndsWithItsClient(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		_ = b.client.Close()
		_ = d.Close()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

// A daemon that dies before it has answered a subscription does not lose it, and the client receives
// one response.
func TestASubscriptionIsRepeatedUntilItIsAnswered(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "resources/subscribe", `"uri":"a"`))
		_ = d.Close()
		d = b.reconnect()
		d.hears(t, request(2, "resources/subscribe", `"uri":"a"`))
		b.receives(d, response(2))
		_ = d.Close()
		d = b.reconnect()
		d.hears(t, request(2, "resources/subscribe", `"uri":"a"`))
		d.says(t, response(2)) // is not for the client
		b.sends(d, request(3, "ping", ""))
		b.receives(d, response(3))
	})
}

// A client that leaves while there is no daemon receives the responses to what is repeated.
func TestAClientThatHasLeftIsAnsweredByTheNextDaemon(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/list", ""))
		b.refuseWith("no daemon")
		_ = d.Close()
		synctest.Wait()
		_ = b.client.Close()
		synctest.Wait()
		b.accept()
		d = b.reconnect()
		d.hears(t, request(2, "tools/list", ""))
		b.receives(d, response(2))
		_ = d.Close()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

// Of several requests for the same state, the last is repeated and the others are answered.
func TestOneOfEqualRequestsIsRepeated(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "logging/setLevel", `"level":"none"`))
		b.sends(d, request(3, "logging/setLevel", `"level":"debug"`))
		b.sends(d, request(4, "logging/setLevel", `"level":"info"`))
		b.receives(d, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no level"}}`)
		_ = d.Close()
		b.hearsError("3", "may have been executed")
		d = b.reconnect()
		d.hears(t, request(4, "logging/setLevel", `"level":"info"`))
		b.receives(d, response(4))
	})
}

// A daemon may answer before it reads on.
func TestManySubscriptionsAreRepeated(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		const n = 50
		for i := range n {
			uri := fmt.Sprintf(`"uri":"%03d"`, i)
			b.sends(d, request(i+2, "resources/subscribe", uri))
			d.says(t, response(i+2))
			b.hears(response(i + 2))
		}
		_ = d.Close()
		d = b.reconnect()
		for i := range n {
			d.hears(t, request(i+2, "resources/subscribe", fmt.Sprintf(`"uri":"%03d"`, i)))
			d.says(t, response(i+2)) // the pipe has no buffer
		}
	})
}

func TestARequestOfALostDaemonIsCancelled(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.receives(d, request(70, "elicitation/create", ""))
		_ = d.Close()
		b.hears(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"the connection to the mcptrack daemon was lost","requestId":70}}`)
	})
}

// A listen that is cancelled while there is no daemon does not begin again.
func TestACancellationIsKept(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := <-b.daemons
		b.sends(d, request(1, "subscriptions/listen", ""))
		b.refuseWith("no daemon")
		_ = d.Close()
		synctest.Wait()
		b.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		b.says(request(2, "ping", ""))
		b.hearsError("2", "was not sent: no daemon")
		b.accept()
		d = <-b.daemons
		synctest.Wait()
		b.sends(d, request(3, "ping", ""))
	})
}

// Requests that wait for a daemon do so together, not one after the other.
func TestManyRequestsDoNotWaitLonger(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.refuseWith("no daemon")
		_ = d.Close()
		synctest.Wait()
		began := time.Now()
		go func() {
			for i := range 10 {
				b.says(request(i+2, "tools/call", ""))
			}
		}()
		for i := range 10 {
			b.hearsError(fmt.Sprint(i+2), "was not sent")
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// Daemons that end as soon as they have started are not started without end.
func TestDaemonsThatEndAreConnectedToLessAndLess(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		_ = d.Close()
		began, n := time.Now(), 0
		for time.Since(began) < time.Minute {
			_ = b.reconnect().Close()
			n++
		}
		if n > 60 {
			t.Errorf("%d connections in a minute", n)
		}
	})
}

func TestADaemonThatDoesNotAnswerAgainIsLeft(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		_ = d.Close()
		d = <-b.daemons
		d.hears(t, request(1, "initialize", ""))
		b.reconnect()
	})
}

func TestTheRelayEndsWithItsClientAlthoughTheDaemonDoesNotAnswer(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/call", ""))
		began := time.Now()
		_ = b.client.Close()
		if err := <-b.done; err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestTheRelayEndsAlthoughTheClientDoesNotRead(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		d.says(t, request(70, "ping", ""))
		b.stop()
		if err := <-b.done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestALastLineWithoutAnEndIsForwarded(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := <-b.daemons
		if _, err := io.WriteString(b.client, request(1, "ping", "")); err != nil {
			t.Fatal(err)
		}
		_ = b.client.Close()
		d.hears(t, request(1, "ping", ""))
	})
}

func TestARequestThatIsTooLargeIsAnswered(t *testing.T) {
	b := start(t)
	d := <-b.daemons
	b.says(request(1, "tools/call", `"text":"`+strings.Repeat("x", MaxRequest)+`"`))
	b.hearsError("1", "larger than 16 MiB")
	go func() { _, _ = io.WriteString(b.client, request(2, "ping", "")+"\n") }()
	d.hears(t, request(2, "ping", ""))
}

func TestAFirstConnectionThatFailsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := errors.New("no daemon")
		err := Run(t.Context(), Options{Connect: func(context.Context, map[string]string) (io.ReadWriteCloser, error) { return nil, want }})
		if !errors.Is(err, want) {
			t.Errorf("%v", err)
		}
	})
}

// A client whose initialize failed has no session that another daemon continues.
func TestAFailedInitializeIsNotRepeated(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		const failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"down"}}`
		d := <-b.daemons
		b.sends(d, request(1, "initialize", ""))
		b.receives(d, failed)
		_ = d.Close()
		d = <-b.daemons
		b.sends(d, request(2, "initialize", ""))
		b.receives(d, response(2))
	})
}

// The next daemon learns what the client has seen, and answers what the lost one did not: requests for lists have no
// effect.
func TestTheNextDaemonContinuesWithLists(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		d := b.connect()
		b.sends(d, request(2, "tools/list", ""))
		d.says(t, `{"mcptrack":{"seen":{"tools/list":"t1"}}}`)
		b.receives(d, response(2))
		d.says(t, `{"mcptrack":{"seen":{"prompts/list":"p1"}}}`)
		d.says(t, `{"mcptrack":{"seen":{"tools/list":"t2"}}}`)
		b.sends(d, request(3, "tools/list", ""))
		_ = d.Close()
		d = b.reconnect()
		if want := map[string]string{"tools/list": "t2", "prompts/list": "p1"}; !maps.Equal(d.seen, want) {
			t.Errorf("the daemon learned %v, want %v", d.seen, want)
		}
		d.hears(t, request(3, "tools/list", ""))
		b.receives(d, response(3))
	})
}

// A request waits for a daemon that has accepted the client, although it takes longer than one without a daemon.
func TestARequestWaitsWhileADaemonContinuesTheSession(t *testing.T) {
	relayed(t, func(t *testing.T, b *bench) {
		_ = b.connect().Close()
		d := <-b.daemons
		d.hears(t, request(1, "initialize", ""))
		b.says(request(2, "ping", ""))
		time.Sleep(9 * time.Second)
		d.says(t, response(1))
		d.hears(t, initialized)
		d.hears(t, request(2, "ping", ""))
	})
}
