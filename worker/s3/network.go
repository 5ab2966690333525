package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"
)

// A limiter lets through a number of bytes a second, both ways together. Zero is no limit.
type limiter struct {
	rate float64
	lock sync.Mutex
	next time.Time // when the next bytes may go
}

func (l *limiter) wait(bytes int) {
	if l.rate <= 0 {
		return
	}
	l.lock.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(bytes) / l.rate * float64(time.Second)))
	l.lock.Unlock()
	time.Sleep(pause)
}

// A conn ends if no byte passes for `patience`, and keeps to the limit.
type conn struct {
	net.Conn
	limit    *limiter
	patience time.Duration
}

// As much as passes between two looks at the limit.
const slice = 64 << 10

func (c *conn) Read(buffer []byte) (int, error) {
	if len(buffer) > slice {
		buffer = buffer[:slice]
	}
	if err := c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(buffer)
	c.limit.wait(n)
	return n, err
}

func (c *conn) Write(buffer []byte) (int, error) {
	written := 0
	for written < len(buffer) {
		piece := buffer[written:min(written+slice, len(buffer))]
		c.limit.wait(len(piece))
		if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// transport: `trusted` may be nil, which means this computer's authorities.
func transport(limit *limiter, patience time.Duration, connections int, trusted *x509.CertPool) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	dialer := &net.Dialer{Timeout: min(patience, 10*time.Second)}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{raw, limit, patience}, nil
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	transport.MaxIdleConnsPerHost = connections
	transport.MaxConnsPerHost = connections
	transport.ResponseHeaderTimeout = patience
	transport.DisableCompression = true
	transport.WriteBufferSize = slice
	transport.ReadBufferSize = slice
	return transport
}
