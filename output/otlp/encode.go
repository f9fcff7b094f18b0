package otlp

import (
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// message is a protocol buffer: https://protobuf.dev/programming-guides/encoding/. Its methods append
// fields by number; a field that has its default value is omitted.
type message []byte

func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = append(binary.AppendUvarint(*m, uint64(len(b))), b...)
}

func (m *message) text(field int, s string) {
	if s != "" {
		m.bytes(field, []byte(strings.ToValidUTF8(s, "\uFFFD")))
	}
}

func (m *message) number(field int, v uint64) {
	if v != 0 {
		*m = binary.AppendUvarint(binary.AppendUvarint(*m, uint64(field)<<3), v)
	}
}

func (m *message) fixed64(field int, v uint64) {
	*m = binary.LittleEndian.AppendUint64(binary.AppendUvarint(*m, uint64(field)<<3|1), v)
}

func (m *message) fixed32(field int, v uint32) {
	*m = binary.LittleEndian.AppendUint32(binary.AppendUvarint(*m, uint64(field)<<3|5), v)
}

// encode returns the ExportTraceServiceRequest of spans, whose messages and numbers are those of
// https://github.com/open-telemetry/opentelemetry-proto (v1.11.0). The spans of an Export share a
// resource and a scope, and have no events.
func encode(spans []sdk.ReadOnlySpan) []byte {
	var request, resourceSpans, resource, scopeSpans, scope message
	if len(spans) == 0 {
		return nil
	}
	attributes(&resource, 1, spans[0].Resource().Attributes())
	scope.text(1, spans[0].InstrumentationScope().Name)
	scope.text(2, spans[0].InstrumentationScope().Version)
	scopeSpans.bytes(1, scope)
	for _, s := range spans {
		scopeSpans.bytes(2, span(s))
	}
	resourceSpans.bytes(1, resource)
	resourceSpans.bytes(2, scopeSpans)
	resourceSpans.text(3, spans[0].Resource().SchemaURL())
	request.bytes(1, resourceSpans)
	return request
}

func span(s sdk.ReadOnlySpan) (m message) {
	identify(&m, s.SpanContext())
	if parent := s.Parent().SpanID(); parent.IsValid() {
		m.bytes(4, parent[:])
	}
	m.text(5, s.Name())
	m.number(6, uint64(s.SpanKind())) // the enumerations are equal
	m.fixed64(7, uint64(s.StartTime().UnixNano()))
	m.fixed64(8, uint64(s.EndTime().UnixNano()))
	attributes(&m, 9, s.Attributes())
	m.number(10, uint64(s.DroppedAttributes()))
	for _, l := range s.Links() {
		var link message
		identify(&link, l.SpanContext)
		attributes(&link, 4, l.Attributes)
		link.number(5, uint64(l.DroppedAttributeCount))
		link.fixed32(6, flags(l.SpanContext, l.SpanContext))
		m.bytes(13, link)
	}
	m.number(14, uint64(s.DroppedLinks()))
	var status message
	status.text(2, s.Status().Description)
	switch s.Status().Code {
	case codes.Ok:
		status.number(3, 1)
	case codes.Error:
		status.number(3, 2)
	}
	m.bytes(15, status)
	m.fixed32(16, flags(s.SpanContext(), s.Parent()))
	return m
}

// identify appends the ids and the state that a span and a link have under the same numbers.
func identify(m *message, c trace.SpanContext) {
	traceID, spanID := c.TraceID(), c.SpanID()
	m.bytes(1, traceID[:])
	m.bytes(2, spanID[:])
	m.text(3, c.TraceState().String())
}

// flags returns those of a span, and that it is known whether its parent is remote.
func flags(c, parent trace.SpanContext) uint32 {
	f := uint32(c.TraceFlags()) | 0x100
	if parent.IsRemote() {
		f |= 0x200
	}
	return f
}

// attributes appends attributes. Those of core/tracing and of the resource have texts as values.
func attributes(m *message, field int, all []attribute.KeyValue) {
	for _, a := range all {
		var pair, value message
		pair.text(1, string(a.Key))
		value.bytes(1, []byte(strings.ToValidUTF8(a.Value.String(), "\uFFFD"))) // also an empty one
		pair.bytes(2, value)
		m.bytes(field, pair)
	}
}
