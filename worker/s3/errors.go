package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
)

// The kinds of errors, for the agent.
const (
	conflict    = "conflict"    // another writer was first
	damaged     = "damaged"     // an object is not what was committed
	invalid     = "invalid"     // a repetition fails again: options, credentials, a missing bucket
	missing     = "missing"     // there is no such object
	unavailable = "unavailable" // a repetition may succeed
)

type storeError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *storeError) Error() string { return e.Message }

func failf(kind, format string, arguments ...any) error {
	return &storeError{kind, fmt.Sprintf(format, arguments...)}
}

// about adds which object an error is about.
func about(what string, err error) error {
	failure := classify(err)
	return &storeError{failure.Kind, what + ": " + failure.Message}
}

func isKind(err error, kind string) bool {
	return err != nil && classify(err).Kind == kind
}

// classify gives an error of the client its kind, and says what to do about the ones that people
// must mend.
func classify(err error) *storeError {
	if known := (*storeError)(nil); errors.As(err, &known) {
		return known
	}
	answer := minio.ToErrorResponse(err)
	switch answer.Code {
	case minio.PreconditionFailed:
		return &storeError{conflict, "another writer was first"}
	case "ConditionalRequestConflict":
		return &storeError{unavailable, "another writer is at work on the same object"}
	case minio.NoSuchKey:
		return &storeError{missing, "there is no such object"}
	case minio.NoSuchBucket:
		return &storeError{invalid, "the bucket " + answer.BucketName + " does not exist"}
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidTokenId",
		"InvalidToken":
		return &storeError{invalid, "the store refuses the credentials (" + answer.Code +
			"): check the keys, and that they may get, put, list and delete objects"}
	case "ExpiredToken", "ExpiredTokenException":
		// The role of a pod may issue new ones.
		return &storeError{unavailable, "the credentials have expired (" + answer.Code +
			"): if they are in a Secret, change it, and suspend and resume the job"}
	case "RequestTimeTooSkewed":
		return &storeError{unavailable,
			"the clocks of this machine and of the store differ by more than 15 minutes"}
	case minio.NotImplemented:
		return &storeError{invalid, "the store lacks a function that commits need: " + answer.Message}
	}
	switch answer.StatusCode {
	case http.StatusPreconditionFailed:
		return &storeError{conflict, "another writer was first"}
	case http.StatusNotFound:
		return &storeError{missing, "there is no such object"}
	case http.StatusForbidden, http.StatusUnauthorized:
		return &storeError{invalid, "the store refuses the credentials: " + answer.Message}
	}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return &storeError{invalid, "the store's certificate is not trusted (" + untrusted.Err.Error() +
			"): give its authority as the text AWS_CA_PEM in the job's Secret, or as the file AWS_CA_BUNDLE"}
	}
	// The URL of a request is long, and its query helps nobody.
	if request := (*url.Error)(nil); errors.As(err, &request) {
		if where, bad := url.Parse(request.URL); bad == nil {
			return &storeError{unavailable, "no answer from " + where.Host + ": " + request.Err.Error()}
		}
	}
	return &storeError{unavailable, err.Error()}
}
