package ssh

import (
	"context"

	"errors"
)

func (o *Options) dialNative(ctx context.Context, t Target) (*Conn, error) {
	return nil, errors.New("not yet")
}
