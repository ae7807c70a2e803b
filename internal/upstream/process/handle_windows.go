package process

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// handle is a job object that a program and its descendants belong to. Windows ends
// the job when its last handle is closed, which also happens when the gateway dies.
// The program is not asked to end first: Windows has no such signal for programs
// without a console. A process that the program starts before it belongs to the job
// is not part of the job, and may survive.
type handle struct {
	once sync.Once
	job  windows.Handle
}

func (h *handle) prepare(p *pipes) error {
	if p.err != nil {
		return p.err
	}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return err
	}
	h.job = job
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	return err
}

// command returns the command that starts the program. The program does not get the
// console signals for the gateway. It is looked up in the PATH of the gateway.
func (h *handle) command(c Config) (*exec.Cmd, error) {
	cmd := exec.Command(c.Command, c.Args...)
	cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	return cmd, nil
}

// started assigns the program to the job.
func (h *handle) started(_ context.Context, p *os.Process) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(process)
	return windows.AssignProcessToJobObject(h.job, process)
}

// memoryError returns nil: there is no limit of memory here.
func (h *handle) memoryError() *MemoryError { return nil }

// close ends every process of the job. It may be called more than once.
func (h *handle) close() {
	h.once.Do(func() {
		if h.job != 0 {
			windows.CloseHandle(h.job)
		}
	})
}

// SuperviseMain does nothing: a job object replaces the supervisor on Windows.
func SuperviseMain() {}
