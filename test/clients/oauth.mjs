// OAuth for a client of the TypeScript SDK: a provider that stores everything in memory, and a user who consents to everything. The user's browser
// follows redirects with cookies until one leads back to the client.
import { UnauthorizedError } from '@modelcontextprotocol/client';

const CALLBACK = 'http://127.0.0.1:1/callback'; // nothing listens there
const MAX_REDIRECTS = 20;

export class Provider {
  // servers/oidc.mjs knows this client. A client that registers itself would be limited to the scopes of the first challenge.
  #client = { client_id: 'v2' };
  #tokens;
  #verifier;
  callback; // parameters of the redirect URI

  get redirectUrl() {
    return CALLBACK;
  }

  get clientMetadata() {
    return {
      client_name: 'v2 client',
      application_type: 'native',
      redirect_uris: [CALLBACK],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none'
    };
  }

  clientInformation = () => this.#client;
  saveClientInformation = (client) => void (this.#client = client);
  tokens = () => this.#tokens;
  saveTokens = (tokens) => void (this.#tokens = tokens);
  codeVerifier = () => this.#verifier;
  saveCodeVerifier = (verifier) => void (this.#verifier = verifier);

  async redirectToAuthorization(url) {
    const cookies = new Map();
    for (let i = 0; i < MAX_REDIRECTS; i++) {
      const response = await fetch(url, { redirect: 'manual', headers: { cookie: [...cookies].map((c) => c.join('=')).join('; ') } });
      for (const line of response.headers.getSetCookie()) {
        const [name, value] = line.split(';')[0].split('=');
        cookies.set(name, value);
      }
      const location = response.headers.get('location');
      if (!location) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
      url = new URL(location, url);
      if (url.href.startsWith(CALLBACK)) {
        this.callback = url.searchParams;
        return;
      }
    }
    throw new Error('too many redirects');
  }
}

// withAuthorization runs an operation and, if the user had to authorize the client first, runs it again. finish is the transport's finishAuth.
export async function withAuthorization(provider, operation, finish) {
  try {
    return await operation();
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || !provider.callback) throw error;
    await finish(provider.callback);
    provider.callback = undefined;
    return operation();
  }
}
