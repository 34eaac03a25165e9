"""A page in headless Chromium, where there is one: what it makes of it, and what it complains about."""
import shutil
import subprocess
import tempfile

PROGRAM = shutil.which("chromium")


def opened(path):
    """The document as the browser has it, and the lines of its console."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                               "--user-data-dir=" + profile, "--dump-dom", "file://" + str(path)],
                              capture_output=True, text=True, timeout=100)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
