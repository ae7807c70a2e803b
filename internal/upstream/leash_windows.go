package upstream

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// leash is a job that a server and all that it starts belong to. Windows ends the job
// when its last handle is closed, which it is, too, when the gateway is gone.
// Nothing is told to end before: Windows has no such signal for programs without a
// console. What a server starts in the instant before it belongs to the job is not
// part of it, and may stay.
type leash struct {
	once sync.Once
	job  windows.Handle
}

func (l *leash) prepare(p *pipes) error {
	if p.err != nil {
		return p.err
	}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return err
	}
	l.job = job
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	return err
}

// command is what starts the server. A console's signals for the gateway are not
// for it. Its name is looked for in the PATH of the gateway.
func (l *leash) command(o *StdioOptions) (*exec.Cmd, error) {
	cmd := exec.Command(o.Command, o.Args...)
	cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	return cmd, nil
}

// started puts the server into the job.
func (l *leash) started(_ context.Context, p *os.Process) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.AssignProcessToJobObject(l.job, h)
}

// close ends all that belongs to the job. It may be called more than once.
func (l *leash) close() {
	l.once.Do(func() {
		if l.job != 0 {
			windows.CloseHandle(l.job)
		}
	})
}

// SuperviseMain does nothing on Windows, where no supervisor is needed.
func SuperviseMain() {}
