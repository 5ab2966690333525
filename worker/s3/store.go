package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"flag"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's authorities, if this computer has none
)

const (
	pieceSize    = 16 << 20 // of a large object: one request
	maxPieces    = 10000    // of one object, by S3
	maxText      = 32 << 20 // of an object of ours
	tries        = 5        // of one request
	hashMetadata = "Sha256" // of a file's object
)

type options struct {
	url       string
	endpoint  string
	region    string
	parallel  int
	bandwidth int64
	stall     time.Duration
	timeout   time.Duration
}

func (o *options) register(flags *flag.FlagSet) {
	flags.StringVar(&o.url, "url", "", "`s3://BUCKET/PREFIX`")
	flags.StringVar(&o.endpoint, "endpoint", firstVariable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
		"the store's `URL`; without one: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's")
	flags.StringVar(&o.region, "region", firstVariable("AWS_REGION", "AWS_DEFAULT_REGION"),
		"the bucket's `region`; without one: AWS_REGION or AWS_DEFAULT_REGION")
	flags.IntVar(&o.parallel, "parallel", 8, "requests at once, 1 to 64")
	flags.Int64Var(&o.bandwidth, "bandwidth", 0, "bytes a second, both ways; 0: no limit")
	flags.DurationVar(&o.stall, "stall", time.Minute, "a request without a byte for so long is repeated")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "the limit of the command")
}

func firstVariable(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// A store is one prefix of one bucket. Its methods take keys below the prefix.
type store struct {
	core     minio.Core
	bucket   string
	prefix   string // "" or with a slash at its end
	parallel int
}

func open(o options) (*store, error) {
	where, err := url.Parse(o.url)
	if err != nil || where.Scheme != "s3" || where.Host == "" || where.RawQuery != "" || where.User != nil {
		return nil, failf(invalid, "--url must be s3://BUCKET/PREFIX, not '%s'", o.url)
	}
	if err := s3utils.CheckValidBucketNameStrict(where.Host); err != nil {
		return nil, failf(invalid, "--url: the bucket '%s': %s", where.Host, err)
	}
	if o.parallel < 1 || o.parallel > 64 {
		return nil, failf(invalid, "--parallel must be 1 to 64, not %d", o.parallel)
	}
	if o.stall <= 0 || o.timeout <= 0 || o.bandwidth < 0 {
		return nil, failf(invalid, "--stall and --timeout must be above 0, and --bandwidth 0 or more")
	}
	if o.endpoint == "" {
		o.endpoint = "https://s3.amazonaws.com"
	}
	endpoint, err := url.Parse(o.endpoint)
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") ||
		strings.Trim(endpoint.Path, "/") != "" {
		return nil, failf(invalid, "--endpoint must be https://HOST[:PORT], not '%s'", o.endpoint)
	}
	trusted, err := authorities()
	if err != nil {
		return nil, err
	}
	if err := checkKeys(); err != nil {
		return nil, err
	}
	chosen := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:      chosen,
		Secure:     endpoint.Scheme == "https",
		Region:     o.region,
		Transport:  transport(&limiter{rate: float64(o.bandwidth)}, o.stall, o.parallel, trusted),
		MaxRetries: tries,
	})
	if err != nil {
		return nil, failf(invalid, "--endpoint %s: %s", o.endpoint, err)
	}
	core.SetAppInfo("lockstep-s3", version)
	prefix := strings.Trim(where.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &store{*core, where.Host, prefix, o.parallel}, nil
}

// checkKeys reports a key without its other half, and a key that no request can carry. It removes
// the line end that a shell command often leaves behind a key.
func checkKeys() error {
	names := []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
	given := 0
	for _, name := range append(names, "AWS_SESSION_TOKEN") {
		value := strings.TrimSpace(os.Getenv(name))
		if err := os.Setenv(name, value); err != nil {
			return failf(invalid, "%s: %s", name, err)
		}
		if strings.ContainsFunc(value, unicode.IsControl) {
			return failf(invalid, "%s holds a line end or another control character", name)
		}
		if value != "" && name != "AWS_SESSION_TOKEN" {
			given++
		}
	}
	if given == 1 {
		return failf(invalid, "only one of %s is given: a Secret needs both", strings.Join(names, " and "))
	}
	return nil
}

// authorities are those that may have signed the store's certificate: this computer's, and those of
// the job. A small image may have none of its own, which is why the program holds Mozilla's list.
func authorities() (*x509.CertPool, error) {
	pem, from := os.Getenv("AWS_CA_PEM"), "AWS_CA_PEM"
	if file := os.Getenv("AWS_CA_BUNDLE"); pem == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, failf(invalid, "AWS_CA_BUNDLE: %s", err)
		}
		pem, from = string(text), "AWS_CA_BUNDLE"
	}
	if pem == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, failf(invalid, "%s holds no certificate in PEM format", from)
	}
	return pool, nil
}

func (s *store) key(key string) string { return s.prefix + key }

// ---- small objects ----

func (s *store) put(ctx context.Context, key string, text []byte, exclusively bool) error {
	options := minio.PutObjectOptions{ContentType: "application/json"}
	if exclusively {
		options.SetMatchETagExcept("*")
	}
	return s.retry(ctx, func() error {
		_, err := s.core.PutObject(ctx, s.bucket, s.key(key), bytes.NewReader(text), int64(len(text)), "",
			hash(text), options)
		return err
	})
}

// create writes an object that does not exist. Conflict: it exists with another content. An answer
// that was lost makes the client repeat the request, which then finds its own object: the same
// content is success, so a caller to whom that matters puts something unique into it.
func (s *store) create(ctx context.Context, key string, text []byte) error {
	return s.retry(ctx, func() error {
		err := s.put(ctx, key, text, true)
		if !isKind(err, conflict) {
			return err
		}
		there, err := s.get(ctx, key)
		if isKind(err, missing) {
			return failf(unavailable, "%s is there, and cannot be read yet", key)
		}
		if err == nil && !bytes.Equal(there, text) {
			return failf(conflict, "%s exists already", key)
		}
		return err
	})
}

func (s *store) get(ctx context.Context, key string) ([]byte, error) {
	var text []byte
	err := s.retry(ctx, func() error {
		object, _, _, err := s.core.GetObject(ctx, s.bucket, s.key(key), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer object.Close()
		text, err = io.ReadAll(io.LimitReader(object, maxText+1))
		if err == nil && len(text) > maxText {
			return failf(damaged, "%s is larger than %d MiB", key, maxText>>20)
		}
		return err
	})
	if err != nil {
		return nil, about(key, err)
	}
	return text, nil
}

// retry repeats what the client does not: an answer that ends in its middle, or that says that two
// writers were at work at once.
func (s *store) retry(ctx context.Context, do func() error) error {
	for i := 1; ; i++ {
		err := do()
		if err == nil || i == tries || classify(err).Kind != unavailable || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(i*i) * 100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

type object struct {
	key      string
	size     int64
	modified time.Time
}

// list gives the objects below a key; not recursively: folders, too, with a slash at the end.
func (s *store) list(ctx context.Context, below string, recursive bool) ([]object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found []object
	for each := range s.core.Client.ListObjects(ctx, s.bucket,
		minio.ListObjectsOptions{Prefix: s.key(below), Recursive: recursive}) {
		if each.Err != nil {
			return nil, about(below, each.Err)
		}
		found = append(found, object{strings.TrimPrefix(each.Key, s.prefix), each.Size, each.LastModified})
	}
	return found, ctx.Err()
}

// remove deletes objects one by one, because not every store has the request for many.
func (s *store) remove(ctx context.Context, keys []string) error {
	return s.each(ctx, len(keys), func(ctx context.Context, i int) error {
		err := s.core.Client.RemoveObject(ctx, s.bucket, s.key(keys[i]), minio.RemoveObjectOptions{})
		if isKind(err, missing) {
			return nil
		}
		return err
	})
}

// ---- files ----

// upload makes a file an object that exists already only if it is the same.
func (s *store) upload(ctx context.Context, key, path string, size int64, sum string) error {
	file, err := os.Open(path)
	if err != nil {
		return failf(invalid, "%s", err)
	}
	defer file.Close()
	options := minio.PutObjectOptions{
		ContentType:  "application/octet-stream",
		UserMetadata: map[string]string{hashMetadata: sum},
	}
	options.SetMatchETagExcept("*")
	if size <= pieceSize {
		_, err = s.core.PutObject(ctx, s.bucket, s.key(key), io.NewSectionReader(file, 0, size), size, "",
			sum, options)
	} else {
		err = s.uploadPieces(ctx, key, file, size, options)
	}
	if isKind(err, conflict) {
		return s.same(ctx, key, size, sum)
	}
	if err != nil {
		return about(key, err)
	}
	return nil
}

// same is nil if the object has this content, by the metadata that upload gave it.
func (s *store) same(ctx context.Context, key string, size int64, sum string) error {
	var info minio.ObjectInfo
	err := s.retry(ctx, func() error {
		var err error
		info, err = s.core.Client.StatObject(ctx, s.bucket, s.key(key), minio.StatObjectOptions{})
		if isKind(err, missing) {
			return failf(unavailable, "it is there, and cannot be read yet")
		}
		return err
	})
	if err != nil {
		return about(key, err)
	}
	if info.Size != size || info.UserMetadata[hashMetadata] != sum {
		return failf(conflict, "%s exists already with another content; "+
			"files that differ between machines need different names", key)
	}
	return nil
}

func (s *store) uploadPieces(ctx context.Context, key string, file *os.File, size int64,
	options minio.PutObjectOptions) error {
	piece := int64(pieceSize)
	for (size+piece-1)/piece > maxPieces {
		piece *= 2
	}
	// The condition belongs to the last request, which makes the object.
	first := minio.PutObjectOptions{ContentType: options.ContentType, UserMetadata: options.UserMetadata}
	upload, err := s.core.NewMultipartUpload(ctx, s.bucket, s.key(key), first)
	if err != nil {
		return err
	}
	pieces := make([]minio.CompletePart, (size+piece-1)/piece)
	err = s.each(ctx, len(pieces), func(ctx context.Context, i int) error {
		start := int64(i) * piece
		body := io.NewSectionReader(file, start, min(piece, size-start))
		sum, err := hashOf(body)
		if err != nil {
			return failf(invalid, "%s: %s", file.Name(), err)
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		done, err := s.core.PutObjectPart(ctx, s.bucket, s.key(key), upload, i+1, body, body.Size(),
			minio.PutObjectPartOptions{Sha256Hex: sum})
		pieces[i] = minio.CompletePart{PartNumber: i + 1, ETag: done.ETag}
		return err
	})
	if err == nil {
		_, err = s.core.CompleteMultipartUpload(ctx, s.bucket, s.key(key), upload, pieces, options)
	}
	if err != nil {
		// Also if the command is at its end: what is left of it costs money.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.core.AbortMultipartUpload(ctx, s.bucket, s.key(key), upload)
	}
	return err
}

// download writes an object into an open file, in pieces, and checks what lies there then.
func (s *store) download(ctx context.Context, key string, file *os.File, size int64, sum string) error {
	if err := file.Truncate(size); err != nil {
		return failf(unavailable, "%s: %s", file.Name(), err)
	}
	pieces := int((size + pieceSize - 1) / pieceSize)
	err := s.each(ctx, pieces, func(ctx context.Context, i int) error {
		start := int64(i) * pieceSize
		return s.retry(ctx, func() error {
			return s.downloadPiece(ctx, key, file, start, min(pieceSize, size-start))
		})
	})
	if isKind(err, missing) {
		return failf(damaged, "%s is gone, although a checkpoint was committed with it", key)
	}
	if err != nil {
		return about(key, err)
	}
	found, err := hashOf(io.NewSectionReader(file, 0, size))
	if err != nil {
		return failf(unavailable, "%s: %s", file.Name(), err)
	}
	if found != sum {
		return failf(damaged, "%s is not what was committed: its SHA-256 is %s instead of %s", key, found, sum)
	}
	return nil
}

func (s *store) downloadPiece(ctx context.Context, key string, file *os.File, start, length int64) error {
	var options minio.GetObjectOptions
	if err := options.SetRange(start, start+length-1); err != nil {
		return err
	}
	body, info, _, err := s.core.GetObject(ctx, s.bucket, s.key(key), options)
	if minio.ToErrorResponse(err).Code == "InvalidRange" {
		return failf(damaged, "the object ends before byte %d", start)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	if info.Size < length {
		return failf(damaged, "the object is %d bytes shorter than committed", length-info.Size)
	}
	n, err := io.Copy(io.NewOffsetWriter(file, start), io.LimitReader(body, length))
	if err == nil && n < length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// ---- many at once ----

// each calls do for 0 to n-1, so many at once as requests are allowed, and returns the first error
// after all calls have ended.
func (s *store) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, s.parallel) {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func hashOf(reader io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, reader); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
