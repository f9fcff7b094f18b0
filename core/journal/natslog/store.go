package natslog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// store is the connection to the NATS servers that store the log.
type store struct {
	opts     Options
	nc       *nats.Conn
	js       jetstream.JetStream
	instance string // unique id of this Log among all processes that use the log
	subjects subjects
	health   storing.Health
	current  atomic.Pointer[string] // the result of epoch; nil before it is known
}

// epoch returns the epoch of the log that is being written, or an empty string before it is known.
func (s *store) epoch() string {
	if epoch := s.current.Load(); epoch != nil {
		return *epoch
	}
	return ""
}

// largest returns the maximum size of a message body, in bytes: the server's limit minus room for
// the headers.
func (s *store) largest() int { return int(s.nc.MaxPayload()) - 1024 }

// open connects to the NATS servers. suspect is called after every lost connection, because the log
// may have been replaced in the meantime.
func (s *store) open(suspect func()) error {
	if err := s.connect(suspect); err != nil {
		return err
	}
	return s.supported()
}

// needs is part of the error messages of supported. NATS servers support atomic batches of messages
// with ids since version 2.12.1.
const needs = "mcptrack needs NATS 2.12.1 or newer with JetStream"

// supported returns an error if the NATS server lacks a feature that the log requires.
func (s *store) supported() error {
	version := s.nc.ConnectedServerVersion()
	var have [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err == nil && slices.Compare(have[:], []int{2, 12, 1}) < 0 {
		return fmt.Errorf("event log: the NATS server has version %s; %s", printable.Line(version, 40), needs)
	}
	for began := time.Now(); ; backoff.Sleep(context.Background(), 100*time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout/2)
		_, err := s.js.AccountInfo(ctx)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("event log: JetStream is not enabled for the account on the NATS server; %s", needs)
		case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			return nil // the cluster may still be starting; open waits for it
		case time.Since(began) > time.Second:
			return fmt.Errorf("event log: JetStream is not enabled on the NATS server; %s", needs)
		}
	}
}

func (s *store) connect(suspect func()) error {
	opts := []nats.Option{
		nats.Name("mcptrack"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1), // no buffering: the writer repeats messages that could not be sent
		nats.Timeout(5 * time.Second),
		nats.ReconnectHandler(func(*nats.Conn) { suspect() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.opts.Logger.Debug("error on the NATS connection", "err", printable.Line(err.Error(), 256))
		}),
	}
	for one := range strings.SplitSeq(s.opts.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err != nil || u.Host == "" {
			return errors.New("event log: invalid NATS URL; use the form nats://host:4222")
		}
	}
	if s.opts.Credentials != "" {
		// The client library reads the file again for every connection, so only check it here.
		if _, err := secretfile.Load(s.opts.Credentials, maxCredentials, 0o007); err != nil {
			return fmt.Errorf("event log: read the NATS credentials: %w", err)
		}
		opts = append(opts, nats.UserCredentials(s.opts.Credentials))
	}
	var err error
	if s.nc, err = nats.Connect(s.opts.URL, opts...); errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("%w: no server responded", ErrUnreachable)
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// ErrUnreachable reports that no connection to the NATS cluster was possible.
var ErrUnreachable = errors.New("event log: cannot connect to NATS")

func (s *store) close() {
	if s.nc != nil {
		s.nc.Close()
	}
}

// maxCredentials limits the size of the file with NATS credentials, in bytes.
const maxCredentials = 64 << 10

const (
	epochKey = "mcptrack.epoch"
	// callTimeout limits how long a single request to the store may take.
	callTimeout = 10 * time.Second
	// dedupe is the time within which the store itself rejects a second copy of an event. It is
	// needed because a failed attempt may still be in flight while the writer looks the event up in
	// the log.
	dedupe = time.Minute
	// stateBytes limits the total size of the stored states. It is enough for about 500,000
	// resources.
	stateBytes = 256 << 20
)

// stream looks up a stream. It repeats the request until a response arrives, because requests are
// lost while a cluster elects a leader. The returned error is from the response, or from the last
// attempt if there was none.
func (s *store) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, time.Second)
		found, err := s.js.Stream(try, name)
		done()
		if err == nil {
			return found, nil
		}
		if apiErr, ok := errors.AsType[*jetstream.APIError](err); ok && apiErr.Code < 500 || s.nc.IsClosed() || !backoff.Sleep(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
}

// info returns the state of a stream.
func (s *store) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	found, err := s.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil
}

// ensure creates the streams for the log, the states and the texts. If they exist, it updates their
// retention. It returns the state of the log's stream.
func (s *store) ensure(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := s.ensureStream(ctx, jetstream.StreamConfig{
		Name: s.opts.Stream, Description: "mcptrack: events", Subjects: []string{s.subjects.of("event.>"), s.subjects.of("content.>")},
		MaxAge: s.opts.Retain, MaxBytes: s.opts.RetainBytes, Duplicates: min(dedupe, s.opts.Retain),
		DenyDelete: true, // a deleted message would be reported as damage
	})
	if err != nil {
		return nil, fmt.Errorf("event log: open the log: %w", err)
	}
	if err := s.ensureStates(ctx); err != nil {
		return nil, err
	}
	if s.opts.Existing || s.opts.KeepContent == 0 {
		return info, nil
	}
	_, err = s.ensureStream(ctx, jetstream.StreamConfig{
		Name: s.opts.Stream + contentsSuffix, Description: "mcptrack: texts of resources, by the digest of their content", Subjects: []string{s.subjects.of("text.*")},
		MaxBytes: s.opts.KeepContent, MaxMsgsPerSubject: 1, Duplicates: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("event log: open the stored texts: %w", err)
	}
	return info, nil
}

// ensureStates creates the stream for the states unless it exists.
func (s *store) ensureStates(ctx context.Context) error {
	_, err := s.ensureStream(ctx, jetstream.StreamConfig{
		Name: s.opts.Stream + "_states", Description: "mcptrack: the last known content of resources", Subjects: []string{s.subjects.of("state.>")},
		MaxBytes: stateBytes, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
	})
	if err != nil {
		return fmt.Errorf("event log: open the stored states: %w", err)
	}
	return nil
}

// ensureStream creates a stream, or updates the retention of an existing one.
func (s *store) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	cfg.Storage, cfg.AllowAtomicPublish, cfg.Replicas = jetstream.FileStorage, true, cmp.Or(s.opts.Replicas, 3)
	ctx, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	for {
		info, err := s.info(ctx, cfg.Name)
		if err == nil {
			return s.adopt(ctx, info, cfg)
		}
		switch {
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		case s.opts.Existing:
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		cfg.Metadata = map[string]string{epochKey: journal.NewEpoch()}
		try, done := context.WithTimeout(ctx, callTimeout/4)
		made, err := s.js.CreateStream(try, cfg)
		done()
		if err == nil {
			return made.CachedInfo(), nil
		}
		switch apiErr, _ := errors.AsType[*jetstream.APIError](err); {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another process created it first
		case apiErr == nil: // no response: requests are lost while a cluster starts
			if s.nc.IsClosed() || !backoff.Sleep(ctx, 50*time.Millisecond) {
				return nil, err
			}
		case apiErr.ErrorCode == codeNotClustered && s.opts.Replicas == 0:
			s.opts.Logger.Warn("the NATS server is not part of a cluster; the log is stored on one node")
			cfg.Replicas = 1
		case apiErr.ErrorCode == codeNoPeers: // nodes may still be starting
			if !backoff.Sleep(ctx, 250*time.Millisecond) {
				return nil, fmt.Errorf("the cluster has too few nodes for %d replicas: %w", cfg.Replicas, err)
			}
		default:
			return nil, err
		}
	}
}

// adopt updates the retention of an existing stream. It does not change the stream's number of
// replicas or its epoch.
func (s *store) adopt(ctx context.Context, info *jetstream.StreamInfo, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	have := info.Config
	if !journal.IsEpoch(have.Metadata[epochKey]) {
		return nil, fmt.Errorf("stream %s was not created by mcptrack", have.Name)
	}
	if s.opts.Existing || have.MaxAge == want.MaxAge && have.MaxBytes == want.MaxBytes && have.Duplicates >= want.Duplicates {
		return info, nil
	}
	have.MaxAge, have.MaxBytes, have.Duplicates = want.MaxAge, want.MaxBytes, max(want.Duplicates, 0)
	updated, err := s.js.UpdateStream(ctx, have)
	if err != nil {
		return nil, fmt.Errorf("set the retention: %w", err)
	}
	return updated.CachedInfo(), nil
}

// renew assigns a new epoch to the log, because ids with the old epoch may identify events that
// were lost.
func (s *store) renew(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	cfg := info.Config
	cfg.Metadata[epochKey] = journal.NewEpoch()
	updated, err := s.js.UpdateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("event log: start a new epoch: %w", err)
	}
	return updated.CachedInfo(), nil
}

// bucket opens a key-value bucket. If it does not exist, it is created with as many replicas as the
// log has.
func (s *store) bucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	for {
		kv, err := s.js.KeyValue(ctx, cfg.Bucket)
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return kv, err
		}
		log, err := s.js.Stream(ctx, s.opts.Stream)
		if err != nil {
			return nil, err
		}
		cfg.Replicas = log.CachedInfo().Config.Replicas
		kv, err = s.js.CreateKeyValue(ctx, cfg)
		if !errors.Is(err, jetstream.ErrBucketExists) {
			return kv, err
		}
	}
}

// bucketRetry is how long to wait before a lost bucket or stream is opened again.
const bucketRetry = 250 * time.Millisecond

// subjects builds the NATS subjects of a log. Its value is the name of the log's stream, which is the
// prefix of all subjects. The stream of the log contains
//
//	event.<server>.<resource>     events; <resource> is - for an event without a resource
//	event.<server>.list-<kind>    events that report a change to a list
//	event.<lease>.lease           fence events
//	content.<server>.<resource>   events with a digest of the content, and removals
//
// The stream of states contains
//
//	state.<server>.<resource>         the state of a resource
//	state.<server>.list.<kind>        a list
//	state.<server>.server             the announcement about the server
//
// The stream of texts contains text.<digest>.
type subjects string

// of returns the subject or pattern that consists of the stream's name and the given suffix.
func (s subjects) of(below string) string { return string(s) + "." + below }

// event returns the subject on which an event is stored. Each resource has its own subject for
// events with a digest of its content, and each list has its own subject for events that report it.
// The last event about a resource or list can therefore be found without reading the log.
func (s subjects) event(e *event.Event) string {
	if name, _, ok := journal.KnownList(e); ok {
		return s.list(serverToken(name.ServerID), name.Kind)
	}
	r := journal.ResourceID{ServerID: e.ServerID, URI: e.ResourceURI}
	if _, _, content := journal.Known(e); content {
		return s.of("content.") + resourceToken(r)
	}
	return s.of("event.") + resourceToken(r)
}

// selected returns the subjects that match a selection. It returns nil if all subjects match.
func (s subjects) selected(sel journal.Selection) []string {
	switch server := serverToken(sel.ServerID); {
	case sel.ServerID == "":
		return nil
	case sel.URI == "" && sel.Own:
		own := []string{s.of("event.") + resourceToken(journal.ResourceID{ServerID: sel.ServerID})}
		for _, kind := range catalog.Kinds() {
			own = append(own, s.list(server, kind))
		}
		return own
	case sel.URI == "":
		return []string{s.of("event." + server + ".*"), s.of("content." + server + ".*")}
	}
	return []string{s.of("content.") + resourceToken(journal.ResourceID{ServerID: sel.ServerID, URI: sel.URI})}
}

// list returns the subject of the events that report changes to a list. server is a subject token,
// or * for all servers.
func (s subjects) list(server string, kind catalog.Kind) string {
	return s.of("event.") + server + ".list-" + string(kind)
}

// fence returns the subject on which every holder of the lease stores its fence event. The store
// accepts further events under the lease only while the holder's fence is the last event on that
// subject, even if the holder was suspended or disconnected in between.
func (s subjects) fence(lease string) string {
	return s.of("event.") + serverToken(lease) + ".lease"
}

// resourceToken returns two subject tokens that identify a resource. They are hashes, because names
// are untrusted and subjects allow only certain characters; the message itself contains the names.
func resourceToken(r journal.ResourceID) string {
	if r.URI == "" {
		return serverToken(r.ServerID) + ".-"
	}
	uri := sha256.Sum256([]byte(r.URI))
	return serverToken(r.ServerID) + "." + hex.EncodeToString(uri[:16])
}

// serverToken returns the subject token that identifies a server.
func serverToken(id string) string {
	server := sha256.Sum256([]byte(id))
	return hex.EncodeToString(server[:8])
}
