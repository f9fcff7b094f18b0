package dashboard

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/cache"
)

const (
	maxImage  = 4 << 20 // bytes
	maxPixels = 50_000_000
)

// image answers with the content of a followed resource that is an image. It reads the
// resource from its server, unless this version is in the cache. Other content of a server
// cannot be read this way.
func (d *Dashboard) image(w http.ResponseWriter, r *http.Request) {
	if d.opts.Read == nil {
		refuse(w, http.StatusNotFound, "this dashboard does not show images")
		return
	}
	id, uri := r.PathValue("id"), r.URL.Query().Get("uri")
	_, res, ok := d.followed(id, uri)
	if !ok || res.Gone || res.Size > maxImage || !strings.HasPrefix(res.MimeType, "image/") {
		refuse(w, http.StatusNotFound, "no such image")
		return
	}
	tag := strconv.Quote(res.Digest.String())
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Cookie, Authorization")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content, err := d.read(r.Context(), id, res)
	if err != nil {
		refuse(w, http.StatusBadGateway, "the MCP server did not return the image")
		return
	}
	data, mimeType, err := picture(content)
	if err != nil {
		refuse(w, http.StatusUnsupportedMediaType, err.Error())
		return
	}
	if content.Digest == res.Digest {
		w.Header().Set("ETag", tag)
	}
	w.Header().Set("Content-Type", mimeType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Content-Disposition", "inline")
	_, _ = w.Write(data)
}

// picture returns the bytes of the first content of a resource. It must be in an image format
// that browsers cannot take for anything else (SVG is a document), and its dimensions are
// limited: a small file can decode to gigabytes.
func picture(r cache.Resource) (data []byte, mimeType string, err error) {
	var result struct {
		Contents []struct {
			Blob string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(r.Raw(), &result); err != nil || len(result.Contents) == 0 {
		return nil, "", errors.New("no content")
	}
	if data, err = base64.StdEncoding.DecodeString(result.Contents[0].Blob); err != nil || len(data) == 0 || len(data) > maxImage {
		return nil, "", errors.New("the image is empty or too large")
	}
	switch mimeType = http.DetectContentType(data); mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, "", errors.New("the content is not an image in a supported format")
	}
	width, height, err := dimensions(data, mimeType)
	if err != nil {
		return nil, "", errors.New("the content is not a valid image")
	}
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return nil, "", errors.New("the image has too many pixels")
	}
	return data, mimeType, nil
}

// dimensions reads the size of an image from its header.
func dimensions(data []byte, mimeType string) (width, height int, err error) {
	if mimeType == "image/webp" {
		return webpDimensions(data)
	}
	var config image.Config
	switch mimeType {
	case "image/png":
		config, err = png.DecodeConfig(bytes.NewReader(data))
	case "image/jpeg":
		config, err = jpeg.DecodeConfig(bytes.NewReader(data))
	case "image/gif":
		config, err = gif.DecodeConfig(bytes.NewReader(data))
	}
	return config.Width, config.Height, err
}

// webpDimensions reads the first chunk of a WebP file (RFC 9649): VP8X, VP8L or VP8.
func webpDimensions(data []byte) (width, height int, err error) {
	if len(data) < 30 {
		return 0, 0, errors.New("too short")
	}
	switch b := data[20:]; string(data[12:16]) {
	case "VP8X":
		return 1 + int(b[4]) + int(b[5])<<8 + int(b[6])<<16, 1 + int(b[7]) + int(b[8])<<8 + int(b[9])<<16, nil
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[1:])
		return 1 + int(bits&0x3fff), 1 + int(bits>>14&0x3fff), nil
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[8:]) & 0x3fff), nil
	}
	return 0, 0, errors.New("unknown chunk")
}
