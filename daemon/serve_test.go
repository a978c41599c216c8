package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	w := newWorld(t)
	hello, stop := w.serve(w.config())
	h := w.home()
	got, err := ReadHello(t.Context(), Unix(h.Socket()))
	if err != nil || got != hello {
		t.Fatalf("hello: %v, %v; want %v", got, err, hello)
	}
	exe, _ := os.Executable()
	want := Hello{Daemon: "kaval", Contract: "1.0", Build: "b", Commit: "c", PID: os.Getpid(), StateRoot: w.root, Socket: h.Socket(), Executable: exe}
	want.StartedAt = got.StartedAt
	if got != want || time.Since(time.UnixMilli(got.StartedAt)) > time.Minute {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if info, err := os.Lstat(h.Socket()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v, %v", info.Mode(), err)
	}
	if f, err := Find(Kaval, Want{Getenv: w.getenv}); err != nil || f.StateRoot != w.root || f.GatePID != os.Getpid() {
		t.Errorf("found %+v, %v", f, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{h.Gate(), h.Socket()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

func TestServeYields(t *testing.T) {
	w := newWorld(t)
	hello, _ := w.serve(w.config())
	second := w.config()
	second.Open = func(context.Context, Hello) (http.Handler, error) {
		t.Error("the second opened its stores")
		return nil, nil
	}
	if err := Serve(t.Context(), second); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	if got, err := ReadHello(t.Context(), Unix(w.home().Socket())); err != nil || got != hello {
		t.Errorf("the first now says %v, %v", got, err)
	}
}

func TestServeYieldsToOneInAnotherRuntimeDirectory(t *testing.T) {
	run := newWorld(t).runtime
	root := run + "/state"
	inTmp := HomeFor(Kaval, root, func(string) string { return "" })
	t.Cleanup(func() { os.RemoveAll(inTmp.Dir) })
	plant(t, inTmp, ownGate(t))
	w := newWorld(t)
	w.env = map[string]string{"XDG_RUNTIME_DIR": run}
	w.root = root
	if err := Serve(t.Context(), w.config()); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	if exists(w.home().Gate()) {
		t.Error("its gate stayed behind")
	}
}

func TestServeOverWhatIsThere(t *testing.T) {
	tests := []struct {
		name  string
		make  func(t *testing.T, socket string)
		wants string
	}{
		{"dead socket", func(t *testing.T, s string) { makeSocket(t, s, "dead") }, ""},
		{"a file", func(t *testing.T, s string) { write(t, s, "precious") }, "no socket"},
		{"a socket without a gate", func(t *testing.T, s string) { makeSocket(t, s, "serving") }, "another process serves it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			h := w.home()
			if err := OpenHome(h); err != nil {
				t.Fatal(err)
			}
			tt.make(t, h.Socket())
			if tt.wants == "" {
				w.serve(w.config())
				return
			}
			before, _ := os.Lstat(h.Socket())
			err := Serve(t.Context(), w.config())
			if err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("got %v, want %q", err, tt.wants)
			}
			if after, err := os.Lstat(h.Socket()); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is not as it was: %v", err)
			}
			if exists(h.Gate()) {
				t.Error("the gate stayed behind")
			}
		})
	}
}

func TestServeLeavesASuccessorsSocket(t *testing.T) {
	w := newWorld(t)
	_, stop := w.serve(w.config())
	socket := w.home().Socket()
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	makeSocket(t, socket, "serving")
	stop()
	if !exists(socket) {
		t.Error("it was removed")
	}
}

func TestDrain(t *testing.T) {
	ask := func(t *testing.T, w *world) *http.Response {
		t.Helper()
		resp, err := HTTPClient(Unix(w.home().Socket())).Post("http://kaval/v1/drain", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t)
		w.serve(w.config())
		resp := ask(t, w)
		if code, detail := ReadProblem(resp); resp.StatusCode != 409 || code != "refused" || detail == "" {
			t.Errorf("got %d %q %q", resp.StatusCode, code, detail)
		}
		if _, err := ReadHello(t.Context(), Unix(w.home().Socket())); err != nil {
			t.Errorf("it did not stay: %v", err)
		}
	})
	t.Run("saves and ends", func(t *testing.T) {
		w := newWorld(t)
		c := w.config()
		saved := make(chan struct{})
		c.Drain = func(context.Context) error { close(saved); return nil }
		ready, done := make(chan Hello, 1), make(chan error, 1)
		c.Ready = func(h Hello) { ready <- h }
		go func() { done <- Serve(t.Context(), c) }()
		<-ready
		if resp := ask(t, w); resp.StatusCode != 200 || read(t, resp.Body) != "{}\n" {
			t.Errorf("got %s", resp.Status)
		}
		<-saved
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("stays when it can't save", func(t *testing.T) {
		w := newWorld(t)
		c := w.config()
		c.Drain = func(context.Context) error { return errors.New("disk full") }
		w.serve(c)
		resp := ask(t, w)
		if _, detail := ReadProblem(resp); resp.StatusCode != 500 || !strings.Contains(detail, "disk full") {
			t.Errorf("got %d %q", resp.StatusCode, detail)
		}
		if _, err := ReadHello(t.Context(), Unix(w.home().Socket())); err != nil {
			t.Errorf("it did not stay: %v", err)
		}
	})
}

func TestServeEndsWithStreamsOpen(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.Open = func(context.Context, Hello) (http.Handler, error) {
		mux := http.NewServeMux()
		mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				io.Copy(io.Discard, conn) // never reads an end by itself
			}
		})
		mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			io.WriteString(w, "closed")
		})
		mux.HandleFunc("/deaf", func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			c.EnableFullDuplex()
			c.Flush()
			io.Copy(io.Discard, r.Body)
		})
		return mux, nil
	}
	_, stop := w.serve(c)
	open := func(request string) net.Conn {
		t.Helper()
		conn, err := Unix(w.home().Socket()).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	hijacked := open("GET /hijack HTTP/1.1\r\nHost: k\r\n\r\n")
	deaf := open("POST /deaf HTTP/1.1\r\nHost: k\r\nContent-Length: 9\r\n\r\n")
	for _, conn := range []net.Conn{hijacked, deaf} {
		if _, err := conn.Read(make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	waiting := open("GET /wait HTTP/1.0\r\n\r\n")
	// The request is under way once another connection was served after it; ask until the handler has it.
	if _, err := ReadHello(t.Context(), Unix(w.home().Socket())); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	read(t, hijacked)
	io.ReadAll(deaf)
	if got := read(t, waiting); got != "" && !strings.HasSuffix(got, "closed") {
		t.Errorf("the waiting client got %q", got)
	}
}

func TestVanishedSocketIsBoundAgain(t *testing.T) {
	w := newWorld(t)
	h := w.home()
	tn := tenureIn(t, w)
	self := tn.hello()
	old, err := Unix(h.Socket()).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.runtime); err != nil { // as a logout does
		t.Fatal(err)
	}
	if err := tn.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !tn.gate.ours() || readManifest(h.Manifest()) != w.root {
		t.Error("gate or manifest is missing")
	}
	if got, err := ReadHello(t.Context(), Unix(h.Socket())); err != nil || got != self {
		t.Errorf("got %v, %v", got, err)
	}
	io.WriteString(old, "GET /v1/hello HTTP/1.0\r\n\r\n")
	if got := read(t, old); !strings.Contains(got, "200 OK") {
		t.Errorf("the connection from before got %q", got)
	}
}

func TestAnotherAtOurAddressIsAMiss(t *testing.T) {
	w := newWorld(t)
	hello, _ := w.serve(w.config())
	imposter := hello
	imposter.StartedAt--
	tn := &tenure{ServeConfig: w.config(), home: w.home(), self: imposter, touched: time.Now()}
	if err := tn.check(t.Context()); err == nil {
		t.Error("the check was content")
	}
}

func TestOtherUsersAreNotHeard(t *testing.T) {
	w := newWorld(t)
	ln, err := listen(w.root+"/s", w.log())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close(); ln.dropAll() })
	ln.uid = os.Getuid() + 1
	go ln.Accept()
	conn, err := net.Dial("unix", ln.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(err.Error(), "reset") {
		t.Errorf("read %d, %v; want the end", n, err)
	}
}

func TestBoundToADeadProcess(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.LookupEnv = func(key string) (string, bool) {
		if key == BindVar {
			return "999999", true
		}
		return w.lookup(key)
	}
	c.Ready = func(Hello) { t.Error("it announced itself") }
	if err := Serve(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestEndsWithTheProcessItIsBoundTo(t *testing.T) {
	w := newWorld(t)
	mute, _ := w.spawn("mute")
	w.env[BindVar] = pidString(mute.Process.Pid)
	c := w.config()
	c.LookupEnv = func(key string) (string, bool) { v, ok := w.env[key]; return v, ok }
	done, ready := make(chan error, 1), make(chan Hello, 1)
	c.Ready = func(h Hello) { ready <- h }
	go func() { done <- Serve(t.Context(), c) }()
	<-ready
	mute.Process.Kill()
	mute.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHelloOfAStranger(t *testing.T) {
	near := func(answer string) Dialer {
		return DialFunc(func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go func() {
				defer b.Close()
				b.Read(make([]byte, 4096))
				io.WriteString(b, answer)
			}()
			return a, nil
		})
	}
	for _, answer := range []string{
		"", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope",
	} {
		if h, err := ReadHello(t.Context(), near(answer)); err == nil {
			t.Errorf("%q: got %v", answer, h)
		}
	}
}

func TestUnknownRoutesAreProblems(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.Open = func(context.Context, Hello) (http.Handler, error) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/terminals/{id}", func(w http.ResponseWriter, r *http.Request) {
			WriteProblem(w, http.StatusNotFound, "no-terminal", "it is gone")
		})
		return mux, nil
	}
	hello, _ := w.serve(c)
	client := HTTPClient(Unix(hello.Socket))
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		method, path string
		status       int
		code, says   string
	}{
		{"GET", "/v1/nope", 404, NoRoute, "GET /v1/nope"},
		{"PATCH", "/v1/terminals/x", 405, NoMethod, "GET"},
		{"GET", "/v1/terminals/../hello", 404, NoRoute, "clean"},
		{"GET", "/v1/terminals/x", 404, "no-terminal", "it is gone"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://daemon"+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code, detail := ReadProblem(resp)
		resp.Body.Close()
		if resp.StatusCode != tt.status || code != tt.code || !strings.Contains(detail, tt.says) {
			t.Errorf("%s %s: %d %s %q", tt.method, tt.path, resp.StatusCode, code, detail)
		}
	}
}
