package login_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
)

// userKey makes the test program a process that uses the login in a folder. Its value is the
// folder and the URL of the server.
const userKey = "LOGIN_TEST_USER"

// useLogin makes requests until stdin ends. It prints a line for every error.
func useLogin(t *testing.T, given string) {
	dir, address, _ := strings.Cut(given, "|")
	src := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}).TokenSource(login.Target{ID: "docs", URL: address})
	over := make(chan struct{}) // closed when stdin ends
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	fmt.Println("begun")
	for {
		select {
		case <-over:
			return
		case <-time.After(rand.N(10 * time.Millisecond)):
		}
		// Two tokens may expire during one request: it is then refused, which is no error.
		if status, err := request(t.Context(), src, address); err != nil || status != http.StatusOK && status != http.StatusUnauthorized {
			fmt.Printf("error: status %d, %v\n", status, err)
		}
	}
}

func TestUserProcess(t *testing.T) {
	given, ok := os.LookupEnv(userKey)
	if !ok {
		t.Skip("it is a part of other tests")
	}
	useLogin(t, given)
}

// user is a process that uses a login.
type user struct {
	*exec.Cmd
	stdin   io.Closer
	reading sync.WaitGroup
	mu      sync.Mutex // guards errors
	errors  []string
}

func startUser(t *testing.T, dir string, s *logintest.Issuer) *user {
	t.Helper()
	u := &user{Cmd: exec.Command(os.Args[0], "-test.run=^TestUserProcess$")}
	u.Env = append(os.Environ(), userKey+"="+dir+"|"+s.Resource)
	stdin, err := u.StdinPipe()
	must(t, err)
	stdout, err := u.StdoutPipe()
	must(t, err)
	u.stdin = stdin
	must(t, u.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "begun" { // others come from the test framework
	}
	u.reading.Go(func() {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "error: ") {
				u.mu.Lock()
				u.errors = append(u.errors, lines.Text())
				u.mu.Unlock()
			}
		}
	})
	return u
}

// stop ends the process and returns its errors.
func (u *user) stop(kill bool) []string {
	if kill {
		_ = u.Process.Kill()
	}
	_ = u.stdin.Close()
	u.reading.Wait()
	_ = u.Wait()
	return u.errors
}

// Many processes use one login while its tokens expire again and again, and the authorization
// server accepts each refresh token once. Every token is renewed once, and no process is refused.
// The processes renew in real time.
func TestOneRenewalForAllProcesses(t *testing.T) {
	s := logintest.New(t)
	dir := filepath.Join(t.TempDir(), "logins")
	mustLogIn(t, login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}), s)
	processes, rotations := 50, 100
	if testing.Short() {
		processes, rotations = 5, 10
	}
	var users []*user
	for range processes {
		users = append(users, startUser(t, dir, s))
	}
	began := time.Now()
	for range rotations {
		before := s.Issued()
		s.Expire()
		for deadline := time.Now().Add(time.Minute); s.Issued() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody renews the token")
			}
		}
	}
	took := time.Since(began)
	for _, u := range users {
		if errs := u.stop(false); len(errs) > 0 {
			t.Errorf("%d errors, such as %s", len(errs), errs[0])
		}
	}
	renewals := s.Hits("as /token") - 1
	t.Logf("%d processes, %d rotations in %s: %d renewals, %d requests", len(users), rotations, took.Round(time.Millisecond), renewals, s.Hits("rs /mcp"))
	if renewals != rotations || s.Revoked() {
		t.Errorf("%d renewals of %d tokens, revoked: %t", renewals, rotations, s.Revoked())
	}
	wantStatus(t, login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}).TokenSource(target(s)), s, http.StatusOK)
}

// Processes are killed while they renew. In every case the login is either unchanged, or the next
// process reports what happened to it.
func TestKilledProcesses(t *testing.T) {
	s := logintest.New(t)
	dir := filepath.Join(t.TempDir(), "logins")
	logins := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()})
	mustLogIn(t, logins, s)
	lost := 0
	kills := 200
	if testing.Short() {
		kills = 8
	}
	for range kills {
		u := startUser(t, dir, s)
		s.Expire()
		time.Sleep(rand.N(15 * time.Millisecond)) // somewhere during or around the renewal of a real process
		u.stop(true)
		_, err := request(t.Context(), logins.TokenSource(target(s)), s.Resource)
		required, ok := errors.AsType[*login.RequiredError](err)
		switch {
		case err == nil:
		case ok && strings.Contains(required.Error(), "was interrupted"):
			lost++
			mustLogIn(t, logins, s)
		default:
			t.Fatalf("after a kill: %v", err)
		}
	}
	t.Logf("%d kills: %d logins were used up, which was reported", kills, lost)
	wantStatus(t, logins.TokenSource(target(s)), s, http.StatusOK)
}
