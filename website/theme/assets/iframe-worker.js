/* The search of the theme runs in a worker, which no browser starts from a file. Read from disk, it runs in a frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.started = new Promise(started => {
        const frame = document.createElement("iframe")
        frame.hidden = true
        frame.onload = () => {
          frame.onload = null
          const inside = frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inside.document.createElement("script")
          script.src = address
          script.onload = () => started(inside)
          inside.document.body.append(script)
        }
        document.body.append(frame)
      })
    }

    postMessage(data) {
      this.started.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
