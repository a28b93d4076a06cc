//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// envBrowser names a Chromium; without it, only what needs no browser is tested.
const envBrowser = "PULLONCE_E2E_CHROMIUM"

// browsers are the browsers that pages are opened in: one or none.
func browsers() []string {
	if program := os.Getenv(envBrowser); program != "" {
		return []string{program}
	}
	return nil
}

// browser is a headless Chromium with one tab, spoken to by the DevTools protocol over a pair of pipes.
type browser struct {
	t       *testing.T
	write   io.Writer
	answers *bufio.Reader
	session string
	id      int
	events  []message
}

// message is a message of the protocol: a call, its answer, or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	Session   string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
	EventBody json.RawMessage `json:"-"`
}

// openBrowser starts the browser. It ends with the test.
func openBrowser(t *testing.T, program string) *browser {
	t.Helper()
	toBrowser, write, err := os.Pipe()
	require.NoError(t, err)
	read, fromBrowser, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+tempDir(t),
		"--remote-debugging-pipe", "about:blank")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tempDir(t)}
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4, where the browser expects them
	require.NoError(t, cmd.Start())
	require.NoError(t, toBrowser.Close())
	require.NoError(t, fromBrowser.Close())
	b := &browser{t: t, write: write, answers: bufio.NewReader(read)}
	t.Cleanup(func() {
		_ = write.Close() // the browser ends when its pipe does
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = read.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call calls a method and reads its result; events that come meanwhile are kept.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	sent, err := json.Marshal(message{ID: b.id, Session: b.session, Method: method, Params: params})
	require.NoError(b.t, err)
	_, err = b.write.Write(append(sent, 0))
	require.NoError(b.t, err)
	for {
		m := b.receive()
		if m.ID != b.id {
			b.events = append(b.events, m)
			continue
		}
		require.Empty(b.t, string(m.Error), method)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

func (b *browser) receive() message {
	b.t.Helper()
	raw, err := b.answers.ReadBytes(0)
	require.NoError(b.t, err, "the browser has ended")
	var m message
	require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m))
	m.EventBody = raw
	return m
}

// open opens a file and waits until it is there in full.
func (b *browser) open(path string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for loaded := false; !loaded; {
		for _, event := range b.events {
			loaded = loaded || event.Method == "Page.loadEventFired"
		}
		if !loaded {
			b.events = append(b.events, b.receive())
		}
	}
}

// as makes the browser one of another width, and of a colour scheme: "light" or "dark".
func (b *browser) as(width int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// eval is the value of an expression in the page.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	require.Empty(b.t, string(got.ExceptionDetails), expression)
	require.NoError(b.t, json.Unmarshal(got.Result.Value, value), expression)
}

// press presses and lets go of a key.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// screenshot is the whole page, which is also kept in dir.
func (b *browser) screenshot(dir, name string) image.Image {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
	picture, err := png.Decode(bytes.NewReader(data))
	require.NoError(b.t, err)
	return picture
}

// troubles are what the console and the network had to say, beside the page itself.
func (b *browser) troubles(page string) []string {
	var all []string
	for _, event := range b.events {
		body := string(event.EventBody)
		switch event.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed":
			all = append(all, body)
		case "Network.requestWillBeSent":
			var sent struct {
				Params struct{ Request struct{ URL string } }
			}
			require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(event.EventBody, []byte{0}), &sent))
			if url := sent.Params.Request.URL; url != "file://"+page && url != "data:," {
				all = append(all, fmt.Sprintf("a request for %s", url))
			}
		}
	}
	return all
}
